"""The node agent: clocks, signals and wiring around one pure function, the tick."""
