"""The embedded model: its tokenizer, its folder, and what its cold start left it able to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rema_env
from rema_agents.chat import ChatCodec
from rema_agents.hf import HFSampler
from rema_agents.play import play
from rema_agents.seat import LMSeat, ScriptedSeat
from rema_agents.tiny import MODEL_FOLDER, SYSTEM_PROMPTS, build
from rema_agents.types import Call, Completion, SamplingParams, Seat
from rema_env.problems.arithmetic import arithmetic, oracle
from rema_env.problems.oracles import oracle_of
from rema_env.transcript import Ending, Finish

TOKENIZER = build.tokenizer()
PROMPTS = [text for prompts in SYSTEM_PROMPTS.values() for text in prompts.values()]
LIMIT = 48  # tokens a message, as in the preset `embedded`

Speak = Callable[[Sequence[Mapping[str, str]]], str]


class Figures(NamedTuple):
    accuracy: float
    finished: float


@pytest.fixture(scope="module")
def codec() -> ChatCodec:
    return ChatCodec.from_pretrained(MODEL_FOLDER)


def test_the_folder_holds_what_the_code_builds(tmp_path: Path) -> None:
    build.write(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in MODEL_FOLDER.iterdir() if path.suffix != ".safetensors"}


def test_the_weights_take_less_than_five_megabytes() -> None:
    assert (MODEL_FOLDER / "model.safetensors").stat().st_size < 5_000_000


def test_it_loads_as_any_other_model_does() -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(MODEL_FOLDER)
    assert sum(p.numel() for p in model.parameters()) == 272_544
    assert model.config.vocab_size == len(TOKENIZER)


@given(st.text().filter(lambda text: "<|" not in text))
def test_any_text_decodes_to_itself(text: str) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKENIZER.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize("phrase", [*PROMPTS, "Compute ", " then ", " modulo 10.", " [FINISH]", "\\boxed{"])
def test_a_constant_phrase_is_one_token(phrase: str) -> None:
    assert len(TOKENIZER.encode(phrase, add_special_tokens=False)) == 1


def test_a_role_header_and_the_end_of_a_message_are_one_token_each() -> None:
    ids = TOKENIZER.apply_chat_template(
        [{"role": "user", "content": "7"}], add_generation_prompt=True, return_dict=False
    )
    assert TOKENIZER.convert_ids_to_tokens(ids) == ["<|user|>", "<0x37>", "<|end|>", "<|assistant|>"]


def test_a_reply_in_tokens_is_what_the_template_makes_of_it(codec: ChatCodec) -> None:
    chat = [{"role": "user", "content": "Compute 3+4*2 modulo 10."}]
    prompt = codec.prompt_ids(chat)
    call = Call("meta_0", 0, prompt, Completion(codec.reply_ids("Compute 4*2"), (), Finish.STOP))
    chat += [{"role": "assistant", "content": "Compute 4*2"}, {"role": "user", "content": "8"}]
    assert codec.prompt_ids(chat, [call]) == codec.prompt_ids(chat)


def test_a_whole_dialogue_of_two_operations_takes_at_most_38_tokens_a_row(codec: ChatCodec) -> None:
    question = arithmetic(2).draw(0, 5).question
    system = {role: {"role": "system", "content": text} for role, text in SYSTEM_PROMPTS["multi_turn"].items()}
    meta = [system["meta"], {"role": "user", "content": question}]
    first = oracle(meta)
    solver = [system["reasoner"], {"role": "user", "content": f"Question:\n{question}\n\nInstruction:\n{first}"}]
    meta += [{"role": "assistant", "content": first}, {"role": "user", "content": oracle(solver)}]
    solver += [{"role": "assistant", "content": oracle(solver)}, {"role": "user", "content": oracle(meta)}]
    rows = [(*codec.prompt_ids(chat), *codec.reply_ids(oracle(chat))) for chat in (meta, solver)]
    assert [len(row) for row in rows] == [30, 35]


@pytest.mark.parametrize("process", SYSTEM_PROMPTS)
def test_every_message_of_the_hardest_level_is_within_the_limit(process: str, codec: ChatCodec) -> None:
    env, speak = rema_env.math_v0(arithmetic(4), process=process), oracle_of(process)
    for seed in range(20):
        env.reset(seed=seed)
        while env.agents:
            observation, _, over, cut, _ = env.last()
            env.step(None if over or cut else speak(observation["messages"]))
        for turn in env.unwrapped.transcript.turns:
            assert len(codec.reply_ids(turn.message)) <= LIMIT


def figures(process: str, temperature: float, meta: Speak | None = None, reasoner: Speak | None = None) -> Figures:
    """Over 256 held-out problems; a role with a function speaks by it instead of the model."""
    codec, sampler = ChatCodec.from_pretrained(MODEL_FOLDER), HFSampler.from_pretrained(MODEL_FOLDER)
    params = SamplingParams(LIMIT, temperature, seed=1)
    scripted = {"meta_0": meta, "reasoner_0": reasoner}
    make_env = partial(rema_env.math_v0, process=process, system_prompts=SYSTEM_PROMPTS[process], max_rounds=4)
    agents = make_env().possible_agents

    def seats(dialogue: int) -> dict[str, Seat]:
        return {
            agent: ScriptedSeat(speak)
            if (speak := scripted[agent])
            else LMSeat(agent, codec, sampler, params, dialogue=dialogue)
            for agent in agents
        }

    episodes = play(make_env, seats, arithmetic(2, "heldout").listed(256))
    sampler.close()
    finished = sum(episode.ending is Ending.FINISHED for episode in episodes) / 256
    return Figures(sum(episode.rewards["reasoner_0"] for episode in episodes) / 256, finished)


def test_it_talks_in_turns_and_answers_a_part_of_the_problems() -> None:
    sampled, greedy = figures("multi_turn", 1.0), figures("multi_turn", 0.0)
    assert 0.28 < sampled.accuracy <= 0.5
    assert greedy.accuracy > 0.55
    assert min(sampled.finished, greedy.finished) > 0.97


@pytest.mark.parametrize("process", ["single_turn", "mrp", "vrp"])
def test_in_every_process_it_is_well_above_chance_with_room_to_learn(process: str) -> None:
    sampled = figures(process, 1.0)
    assert 0.2 < sampled.accuracy <= 0.5
    assert sampled.finished > 0.97


@pytest.mark.parametrize("process", ["multi_turn", "single_turn"])
def test_it_carries_out_a_good_plan_and_finds_one_for_part_of_the_problems(process: str) -> None:
    assert figures(process, 0.0, meta=oracle_of(process)).accuracy > 0.9
    assert 0.55 < figures(process, 0.0, reasoner=oracle_of(process)).accuracy < 0.95
