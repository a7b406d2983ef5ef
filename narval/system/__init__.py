"""The machine: clock, timers, files, the log, systemd."""
