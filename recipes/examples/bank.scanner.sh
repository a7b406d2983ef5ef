#!/bin/sh
# The scanner of the bank, as a task: it takes folders until none has come for a while.
# Start it by: sh recipes/examples/bank.scanner.sh
set -e
NARVAL_TASK=$(narval task init bank.scan)
export NARVAL_TASK
while narval task get --timeout "${1:-60}" > "${TMPDIR:-/tmp}/folder.$$"; do
  narval task raise scanned > /dev/null   # the pages are through
  if grep -q '<form' "${TMPDIR:-/tmp}/folder.$$"; then
    narval task raise stored > /dev/null
  else
    narval task raise unreadable > /dev/null
  fi
done
rm -f "${TMPDIR:-/tmp}/folder.$$"
narval task down
