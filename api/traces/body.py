"""Request bodies of ingestion: decompressed, and never larger than allowed."""

import io
import zlib

import zstandard

from api.errors import ApiError, BadRequestError, TooLargeError

_WINDOW_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1024 * 1024


class UnsupportedEncodingError(ApiError):
    status = 415


def decode_body(body: bytes, encoding: str, limit_bytes: int) -> bytes | bytearray:
    """The body without its Content-Encoding (identity, gzip, zstd).

    Raises:
        TooLargeError: decompressed it exceeds `limit_bytes`; what is beyond was never held.
        BadRequestError: it is not what its Content-Encoding says.
        UnsupportedEncodingError: another encoding.
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
    with decompressor.stream_reader(io.BytesIO(body), read_across_frames=True) as reader:
        while len(decoded) <= limit:
            chunk = reader.read(_READ_BYTES)
            if not chunk:
                break
            decoded += chunk
    return decoded
