"""Writes a Llama model so small that vLLM serves it on one core: `python tiny_model.py FOLDER`.

This runs in the vLLM environment, not in devcluster's own. Two layers, two million weights drawn
from a fixed seed, and a byte-level tokenizer whose tokens are bytes and pairs of letters. What the
model says is noise. Its token counts, its timing and every interface around it are as real as a
large model's.
"""

import itertools
import string
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT_TOKENS = 8192
SPECIAL = ("<s>", "</s>", "<unk>")
SPACE = "\u0120"  # how byte-level tokenizers write a blank
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of 1611 tokens, with about two letters to a token.

    The tokens are bytes, pairs of letters, and pairs of letters after a blank.
    """
    bytes_ = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = list(itertools.product(string.ascii_lowercase, repeat=2))
    merges = pairs + [(SPACE, first + second) for first, second in pairs]
    tokens = [*SPECIAL, *bytes_, *(left + right for left, right in merges)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    model = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>")
    )
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=model,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=CONTEXT_TOKENS,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def weights(tokens: int) -> LlamaForCausalLM:
    """Return a model with random weights, the same ones every time."""
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=tokens,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT_TOKENS,
        bos_token_id=0,
        eos_token_id=1,
    )
    return LlamaForCausalLM(shape)


def main(folder: Path) -> None:
    """Write tokenizer, configuration and weights into `folder`, readable to any user."""
    made = tokenizer()
    made.save_pretrained(folder)
    weights(len(made)).save_pretrained(folder)
    for path in (
        folder.iterdir()
    ):  # weights are written for their owner alone, and pods do not run as that
        path.chmod(path.stat().st_mode | 0o444)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
