"""rema_env: dialogues of language models as PettingZoo environments. Text only; no torch, no tokens.

import rema_env

env = rema_env.math_v0()
env.reset(seed=0)
for agent in env.agent_iter():
    observation, reward, terminated, truncated, info = env.last()
    env.step(None if terminated or truncated else my_agents[agent](observation["messages"]))
"""

from __future__ import annotations

from rema_env.dialogue import DialogueEnv
from rema_env.problems import Problems
from rema_env.process import Process
from rema_env.registry import resolve
from rema_env.rewards import Graded, Reward
from rema_env.tasks.judge import judge_v0
from rema_env.tasks.math import math_v0
from rema_env.tasks.parts import dialogue_env
from rema_env.tasks.qa import qa_v0
from rema_env.transcript import Ending, Finish, Grade, Message, Outcome, Problem, Transcript, Turn
from rema_env.views import register as _register_seats

__all__ = [
    "DialogueEnv",
    "Ending",
    "Finish",
    "Grade",
    "Graded",
    "Message",
    "Outcome",
    "Problem",
    "Problems",
    "Process",
    "Reward",
    "Transcript",
    "Turn",
    "dialogue_env",
    "judge_v0",
    "math_v0",
    "qa_v0",
    "resolve",
]

_register_seats()
