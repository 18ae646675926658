"""The delay levels both servers are started with: short, so that retries (level 3 and up) need not take minutes."""

# Levels 1 and 2 are what the delay scenarios send with.
DELAY_LEVELS = "1s 3s 1s 1s 1s 1s 2s 2s 2s 2s 5s 5s 10s 10s 1m 2m 1h 2h"
