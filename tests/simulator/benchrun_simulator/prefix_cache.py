"""KV-cache blocks and vLLM's automatic prefix cache, as counting.

A block holds `block_size` tokens. It is blank, private to one sequence, or *hashed*: its content is
named by a hash over all tokens up to its end, so that later sequences with the same prefix can
share it. A hashed block that no sequence holds is idle: still a hit, and evicted (least recently
used first) when blocks run out. Memory is never touched; only numbers and hashes are kept.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from hashlib import sha256


def chain_hash(parent: bytes, tokens: Tokens[int]) -> bytes:
    """Return the name of a block: a hash of its tokens and all the tokens before it."""
    return sha256(parent + token_bytes(tokens)).digest()


def token_bytes(tokens: Tokens[int]) -> bytes:
    """Return tokens as bytes, equal for equal tokens only."""
    return array("q", tokens).tobytes()


def block_hashes(
    tokens: Tokens[int], *, block_size: int, salt: str = ""
) -> list[bytes]:
    """Return the name of every full block of `tokens`, first to last.

    Equal salts share names, different ones never do.
    """
    parent = salt.encode()
    hashes = []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = chain_hash(parent, tokens[start : start + block_size])
        hashes.append(parent)
    return hashes


@dataclass(slots=True)
class Lease:
    """The blocks that one sequence holds."""

    shared: list[bytes] = field(default_factory=list)
    """Hashed blocks, in the order of the tokens."""
    private: int = 0
    cached_tokens: int = 0
    """Prompt tokens found in the cache when the lease was given."""

    @property
    def blocks(self) -> int:
        return len(self.shared) + self.private


class KvCache:
    """All blocks of one server."""

    def __init__(
        self,
        *,
        blocks: int,
        block_size: int,
        prefix_caching: bool = True,
        foreign_hits_percent: float = 0.0,
    ) -> None:
        self.blocks = blocks
        self.block_size = block_size
        self.prefix_caching = prefix_caching
        self._foreign_hits_percent = foreign_hits_percent  # of each prompt, as if another client had sent it before
        self._held: dict[bytes, int] = {}
        self._idle: OrderedDict[bytes, None] = OrderedDict()
        self._private = 0

    @property
    def free_blocks(self) -> int:
        """Return the number of blocks that a new sequence could take: blank ones and idle ones."""
        return self.blocks - self._private - len(self._held)

    @property
    def usage(self) -> float:
        """Return the share of blocks held by live sequences, 0 to 1.

        Idle blocks do not count, as in vLLM.
        """
        return 1 - self.free_blocks / self.blocks

    def admit(self, hashes: Tokens[bytes], *, tokens: int) -> Lease | None:
        """Give blocks for `tokens` tokens whose full blocks are named `hashes`.

        Returns None if too few are free. The last token is always computed, so a prompt that is
        wholly cached still misses its last block.
        """
        hits = self._leading_hits(hashes, tokens=tokens)
        idle_hits = sum(name in self._idle for name in hits)
        fresh = self._blocks_for(tokens) - len(hits)
        if fresh > self.free_blocks - idle_hits:
            return None
        lease = Lease(
            cached_tokens=self._with_foreign(len(hits), tokens=tokens)
            * self.block_size
        )
        for name in hits:
            self._hold(name)
            lease.shared.append(name)
        self._take_private(lease, fresh)
        if self.prefix_caching:
            for name in hashes[len(hits) :]:
                self.seal(lease, name)
        return lease

    def cached_tokens(self, hashes: Tokens[bytes], *, tokens: int) -> int:
        """Return how many of `tokens` tokens need not be computed if they were admitted now."""
        hits = len(self._leading_hits(hashes, tokens=tokens))
        return self._with_foreign(hits, tokens=tokens) * self.block_size

    def grow(self, lease: Lease, *, tokens: int) -> bool:
        """Make room for `tokens` tokens in all.

        Returns False, and takes nothing, if too few blocks are free.
        """
        missing = self._blocks_for(tokens) - lease.blocks
        if missing > self.free_blocks:
            return False
        self._take_private(lease, max(missing, 0))
        return True

    def seal(self, lease: Lease, name: bytes) -> None:
        """Name a private block of the lease that has become full, unless a twin has that name."""
        if not self.prefix_caching or name in self._held or name in self._idle:
            return
        self._held[name] = 1
        self._private -= 1
        lease.private -= 1
        lease.shared.append(name)

    def release(self, lease: Lease) -> None:
        """Take back all blocks of a lease, which is empty afterwards; hashed ones stay findable."""
        # The tail goes first into the queue for eviction: a shorter prefix is the likelier hit.
        for name in reversed(lease.shared):
            self._held[name] -= 1
            if not self._held[name]:
                del self._held[name]
                self._idle[name] = None
        self._private -= lease.private
        lease.shared = []
        lease.private = 0

    def reset(self) -> bool:
        """Forget all hashed blocks.

        Returns False, and forgets nothing, while any block is held, as in vLLM.
        """
        if self._held or self._private:
            return False
        self._idle.clear()
        return True

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def _with_foreign(self, hits: int, *, tokens: int) -> int:
        foreign = (
            self._lookups(tokens) * self._foreign_hits_percent / 100
            if self.prefix_caching
            else 0
        )
        return max(hits, int(foreign))

    def _lookups(self, tokens: int) -> int:
        return (tokens - 1) // self.block_size

    def _leading_hits(self, hashes: Tokens[bytes], *, tokens: int) -> list[bytes]:
        hits: list[bytes] = []
        for name in hashes[: self._lookups(tokens)]:
            if name not in self._held and name not in self._idle:
                break
            hits.append(name)
        return hits

    def _hold(self, name: bytes) -> None:
        self._idle.pop(name, None)
        self._held[name] = self._held.get(name, 0) + 1

    def _take_private(self, lease: Lease, count: int) -> None:
        blank = self.free_blocks - len(self._idle)
        for _ in range(count - blank):
            self._idle.popitem(last=False)
        self._private += count
        lease.private += count
