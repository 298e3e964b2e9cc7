"""Unpacking records, timelines and result documents within a bound.

Whoever stores one may be hostile: a gzip stream can hold a thousand times its own size.
"""

import zlib


def unpacked(data: bytes, *, max_bytes: int) -> bytes:
    """Unpack a gzip stream.

    Raises ValueError, with a message of one line, for other data and for a stream with more than
    `max_bytes`. At most `max_bytes` are unpacked.
    """
    inflate = zlib.decompressobj(wbits=31)
    try:
        text = inflate.decompress(data, max_bytes)
    except zlib.error as error:
        raise ValueError(f"not a gzip stream: {error}") from error
    if not inflate.eof:
        raise ValueError(f"cut short, or larger than {max_bytes} bytes unpacked")
    return text
