"""How agents learn: an algorithm is two pure functions and a few words; the loop, the learner and the rest are shared."""
