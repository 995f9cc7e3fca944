"""Request bodies of ingestion: decompressed, and never larger than allowed."""

import zlib

import zstandard

from api.errors import ApiError, BadRequestError, TooLargeError

_WINDOW_BYTES = 64 * 1024 * 1024
# A block of zstd is 128 KiB at most and takes 4 bytes at least: a step yields no more than 32 MiB.
_STEP_BYTES = 1024
_MAX_FRAMES = 10_000


class UnsupportedEncodingError(ApiError):
    status = 415


def decode_body(body: bytes, encoding: str, limit_bytes: int) -> bytes | bytearray:
    """The body without its Content-Encoding (identity, gzip, zstd).

    Raises:
        TooLargeError: decompressed it exceeds `limit_bytes`; what is beyond was never held.
        BadRequestError: it is not what its Content-Encoding says.
        UnsupportedEncodingError: another encoding, or several.
    """
    try:
        match encoding.strip().lower():
            case "identity" | "":
                decoded: bytes | bytearray = body
            case "gzip" | "x-gzip":
                decoded = _gunzip(body, limit_bytes)
            case "zstd":
                decoded = _unzstd(body, limit_bytes)
            case other:
                raise UnsupportedEncodingError(
                    f"Content-Encoding {other[:80]!r}: send identity, gzip or zstd."
                )
    except (zlib.error, zstandard.ZstdError) as error:
        raise BadRequestError(f"The body is not valid {encoding}: {error}") from None
    if len(decoded) > limit_bytes:
        raise TooLargeError(f"The body is larger than {limit_bytes} bytes (decompressed).")
    return decoded


def _gunzip(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    decoded = stream.decompress(body, limit + 1)
    if len(decoded) <= limit and not stream.eof:
        raise zlib.error("it ends too early")
    if stream.unused_data:
        raise zlib.error("there are bytes after its end")
    return decoded


def _unzstd(body: bytes, limit: int) -> bytearray:
    """Frames one after the other, for a streaming client may send several."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    decoded = bytearray()
    frame: zstandard.ZstdDecompressionObj | None = None
    frames = 0
    for start in range(0, len(body), _STEP_BYTES):
        chunk = body[start : start + _STEP_BYTES]
        while chunk:
            if frame is None:
                frames += 1
                if frames > _MAX_FRAMES:
                    raise zstandard.ZstdError(f"more than {_MAX_FRAMES} frames")
                frame = decompressor.decompressobj()
            decoded += frame.decompress(chunk)
            if len(decoded) > limit:
                return decoded
            if not frame.eof:
                break
            chunk, frame = frame.unused_data, None
    if frame is not None:
        raise zstandard.ZstdError("it ends too early")
    return decoded
