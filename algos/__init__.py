"""How agents learn: an algorithm is two pure functions and a few words; loop, learner and the rest are shared."""
