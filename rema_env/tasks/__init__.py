"""The worked tasks, one screen each: math, judge, qa."""
