"""`GET /info`: what this server can do, read by SDKs before they send (trace contract §5.3)."""

from typing import Any

from fastapi import APIRouter

router = APIRouter(tags=["traces"])

# SDKs compare it with the releases of the hosted service: from 0.16.14 on they use every route that we serve.
CONTRACT_VERSION = "0.16.14"
SIZE_LIMIT_BYTES = 20_971_520


@router.get("/info")
async def info() -> dict[str, Any]:
    """Public: SDKs call it with or without a key."""
    return {
        "version": CONTRACT_VERSION,
        "git_sha": None,
        "license_expiration_time": None,
        "batch_ingest_config": {
            "use_multipart_endpoint": True,
            "scale_up_qsize_trigger": 1000,
            "scale_up_nthreads_limit": 16,
            "scale_down_nempty_trigger": 4,
            "size_limit": 100,
            "size_limit_bytes": SIZE_LIMIT_BYTES,
        },
        "instance_flags": {
            "zstd_compression_enabled": True,
            "gzip_body_enabled": True,
            "dataset_examples_multipart_enabled": True,
            "examples_multipart_enabled": True,
            "ch_query_enabled": True,
        },
        "customer_info": None,
    }
