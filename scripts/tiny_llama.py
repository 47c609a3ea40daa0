"""``tiny_llama.py OUT``: a Llama of 11 million random weights with its own tokenizer, for real engines in tests.

Run it with an interpreter that has torch, tokenizers and transformers (vLLM's). It answers nonsense, always the same
nonsense to the same prompt at temperature 0, and it runs at some thousand tokens per second on one core.
"""

import sys
import sysconfig
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CONTEXT_TOKENS = 4096
TRAINING_FILES = 300  # of Python's own standard library, which every machine has


def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE, trained here."""
    bpe = Tokenizer(models.BPE(unk_token=None))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4096, special_tokens=list(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    library = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:TRAINING_FILES]
    bpe.train([str(path) for path in library], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        model_max_length=CONTEXT_TOKENS,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def model(vocabulary: int) -> LlamaForCausalLM:
    """Four layers of seeded noise."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT_TOKENS,
        bos_token_id=SPECIAL.index("<s>"),
        eos_token_id=SPECIAL.index("</s>"),
        pad_token_id=SPECIAL.index("<pad>"),
        tie_word_embeddings=True,
        dtype="bfloat16",
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def main(out: Path) -> None:
    """Write tokenizer and weights; ``out`` appears once all is there."""
    part = out.with_name(out.name + ".part")
    part.mkdir(parents=True, exist_ok=True)
    words = tokenizer()
    words.save_pretrained(part)
    model(len(words)).save_pretrained(part)
    part.rename(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
