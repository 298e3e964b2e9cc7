"""Write a GGUF model with random weights and a given tokenizer: TOKENIZER.json MODEL.gguf.

It has two layers. What it says is noise, but of ASCII letters only: build b10434 ends a stream with
an error where bytes are no UTF-8. Its token counts are those of the tokenizer, so that server and
client count alike.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np

ALWAYS = 4.0
"""Value of the first dimension of each embedding. It is far above all others, so that the first
weight of a token's output decides whether the token is ever said."""
NEVER = -10.0
SPECIAL = frozenset({"<s>", "</s>", "<unk>"})
SPACE = "\u0120"  # How byte-level tokenizers write a blank.
WIDTH, LAYERS, HEADS, KV_HEADS, INNER, CONTEXT = 64, 2, 4, 2, 128, 8192


def write(tokenizer: Path, target: Path) -> None:
    """Write the model file."""
    bpe = json.loads(tokenizer.read_text(encoding="utf-8"))["model"]
    tokens = sorted(bpe["vocab"], key=bpe["vocab"].__getitem__)
    writer = gguf.GGUFWriter(str(target), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_tokens(writer, tokens, bpe["merges"])
    weights = {name: _drawn(name, of) for name, of in _shapes(len(tokens)).items()}
    weights["token_embd.weight"][:, 0] = ALWAYS
    weights["output.weight"][:, 0] = [
        0.0 if _is_ascii(each) else NEVER for each in tokens
    ]
    for name, tensor in weights.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokens(
    writer: gguf.GGUFWriter, tokens: list[str], merges: list[str | list[str]]
) -> None:
    """Add a byte-level tokenizer, which adds no token of its own to a prompt."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(
        [
            gguf.TokenType.CONTROL if each in SPECIAL else gguf.TokenType.NORMAL
            for each in tokens
        ]
    )
    writer.add_token_merges(
        [each if isinstance(each, str) else " ".join(each) for each in merges]
    )
    writer.add_bos_token_id(tokens.index("<s>"))
    writer.add_eos_token_id(tokens.index("</s>"))
    writer.add_unk_token_id(tokens.index("<unk>"))
    writer.add_add_bos_token(False)


def _shapes(tokens: int) -> dict[str, tuple[int, ...]]:
    narrow = WIDTH * KV_HEADS // HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (tokens, WIDTH),
        "output_norm.weight": (WIDTH,),
        "output.weight": (tokens, WIDTH),
    }
    for layer in range(LAYERS):
        of_layer = {
            "attn_norm": (WIDTH,),
            "ffn_norm": (WIDTH,),
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (narrow, WIDTH),
            "attn_v": (narrow, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        shapes |= {
            f"blk.{layer}.{name}.weight": shape for name, shape in of_layer.items()
        }
    return shapes


def _is_ascii(token: str) -> bool:
    """Return whether a token is printable ASCII by itself; `<s>` and its like are not."""
    text = token.replace(SPACE, "")
    return token not in SPECIAL and all("!" <= each <= "~" for each in text)


def _drawn(name: str, shape: tuple[int, ...]) -> np.ndarray:
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    seed = sum(name.encode())
    drawn = np.random.default_rng(seed).standard_normal(shape) * 0.05
    return drawn.astype(np.float32)


if __name__ == "__main__":
    Path(sys.argv[2]).parent.mkdir(parents=True, exist_ok=True)
    write(Path(sys.argv[1]), Path(sys.argv[2]))
