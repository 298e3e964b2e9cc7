"""Unpacking records, timelines and result documents within a bound.

Whoever stores one may be hostile: a gzip stream can hold a thousand times its own size.
"""

import zlib


def unpacked(data: bytes, *, max_bytes: int) -> bytes:
    """Return what a gzip stream holds.

    Raises ValueError, with one line, for other data and for more than `max_bytes`, of which no more
    are unpacked.
    """
    inflate = zlib.decompressobj(wbits=31)
    try:
        text = inflate.decompress(data, max_bytes)
    except zlib.error as error:
        raise ValueError(f"not a gzip stream: {error}") from error
    if not inflate.eof:
        raise ValueError(f"cut short, or larger than {max_bytes} bytes unpacked")
    return text
