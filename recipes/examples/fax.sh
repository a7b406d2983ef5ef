#!/bin/sh
# The program that sends faxes, as a task: it takes all documents of the queue, and ends.
set -e
NARVAL_TASK=$(narval task init fax.send)
export NARVAL_TASK
document=$(mktemp)
while narval task get --timeout 1 > "$document"; do
  number=$(sed -n 's/.* number="\([^"]*\)".*/\1/p' "$document")
  if echo "$number" >> faxed.txt; then      # in place of a modem
    narval task raise sent
  else
    narval task raise busy
  fi
done
rm -f "$document"
narval task down
