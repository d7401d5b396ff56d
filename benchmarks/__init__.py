"""What is measured: accuracy, ablations, speed. Each module prints a table and, as its last line, one JSON object."""
