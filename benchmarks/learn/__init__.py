"""The parts of `benchmarks.learn_speed`: the step, who takes it, and what is measured beside it."""
