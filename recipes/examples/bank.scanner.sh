#!/bin/sh
# The scanner of the bank, as a task: it takes folders until none has come for a minute, or so many seconds.
# Start it in the home: sh recipes/examples/bank.scanner.sh [SECONDS]
set -e
NARVAL_TASK=$(narval task init bank.scan)
export NARVAL_TASK
folder=$(mktemp)
while narval task get --timeout "${1:-60}" > "$folder"; do
  narval task raise scanned                 # the pages are through
  if grep -q '<document' "$folder"; then
    narval task raise stored
  else
    narval task raise unreadable
  fi
done
rm -f "$folder"
narval task down
