"""The embedded object store: SeaweedFS with its S3 gateway."""

import os
import signal
from functools import partial
from pathlib import Path

from stack.buckets import BucketAccess
from stack.health import check_object_store
from stack.home import Credentials, Home
from stack.ports import PortBook
from stack.program import Program
from stack.tools import tool

# Where its maintenance worker looks for the admin server's gRPC port, whatever that is set to.
_ADMIN_GRPC_OFFSET = 10_000
# Small volumes: each bucket reserves some, and the disk's free space divided by this size is their number.
_VOLUME_SIZE_MB = 128


def object_store_program(
    home: Home, port: int, credentials: Credentials, ports: PortBook, access: BucketAccess
) -> Program:
    """The S3 gateway on loopback `port`; everything else it opens is on remembered inner ports."""
    home.objects.mkdir(mode=0o700, exist_ok=True)
    admin_port = ports.choose(
        "s3-admin",
        companion_offset=_ADMIN_GRPC_OFFSET,
        suits=lambda port: _socket_is_ours("admin", port + _ADMIN_GRPC_OFFSET),
    )
    sockets = [_socket("admin", admin_port + _ADMIN_GRPC_OFFSET)]
    options = {
        "dir": str(home.objects),
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "s3.port": str(port),
        "admin.port": str(admin_port),
        "admin.ui": "false",
        "webdav": "false",
        "s3.port.iceberg": "0",
        "s3.port.lance": "0",
        "s3.autoCreateBucket": "false",
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": str(_VOLUME_SIZE_MB),
        "filer.localSocket": str(home.objects / "filer.sock"),
        "s3.localSocket": str(home.objects / "s3.sock"),
    }
    for name in ("master.port", "volume.port", "filer.port"):
        options[name] = str(ports.choose(name))
    for part in ("master", "volume", "filer", "s3"):
        port_of_part = ports.choose(f"{part}.port.grpc", suits=partial(_socket_is_ours, part))
        options[f"{part}.port.grpc"] = str(port_of_part)
        sockets.append(_socket(part, port_of_part))
    return Program(
        name="s3",
        command=[
            str(tool("weed")),
            "-logtostderr=true",
            "mini",
            *(f"-{name}={value}" for name, value in options.items()),
        ],
        environment={
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(home.objects),
            "AWS_ACCESS_KEY_ID": credentials.s3_access_key_id,
            "AWS_SECRET_ACCESS_KEY": credentials.s3_secret_access_key,
        },
        check=lambda _pid, _since: check_object_store(access),
        stop_seconds=20.0,
        death_signal=signal.SIGTERM,
        leftovers=sockets,
    )


def _socket(part: str, grpc_port: int) -> Path:
    """Where a part of SeaweedFS listens besides its gRPC port; its other parts call it there. The path is fixed."""
    return Path(f"/tmp/seaweedfs-{part}-grpc-{grpc_port}.sock")


def _socket_is_ours(part: str, grpc_port: int) -> bool:
    """Whether the path is free or was left by this user: another user's cannot be replaced."""
    try:
        return _socket(part, grpc_port).lstat().st_uid == os.geteuid()
    except FileNotFoundError:
        return True
