"""W12 with DBOS Transact: in each of so many pairs one workflow sends, and another receives.

    PYTHONPATH=PEERS python w12_dbos.py [PAIRSxMESSAGES [sqlite | postgresql]]

PEERS is the folder of the peers' scripts, `$PG_URL` the database for `postgresql`. A workflow that waits
takes a thread of DBOS, of which there are 64: there may be 30 pairs.
"""

import os
import sys

from _common import arg, emit, now, version, workdir
from dbos import DBOS, SetWorkflowID

shape, backend = arg(1, "20x20"), arg(2, "sqlite")
pairs, each = (int(part) for part in shape.split("x"))
url = (
    "sqlite:///" + os.path.join(workdir("dbos"), "dbos.sqlite")
    if backend == "sqlite"
    else os.environ["PG_URL"]
)
DBOS(
    config={"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"},
)


@DBOS.workflow()
def receives(number):
    return [DBOS.recv("order", timeout_seconds=120) for _ in range(each)]


@DBOS.workflow()
def sends(number):
    for order in range(each):
        DBOS.send(f"r{number}-{os.getpid()}", order, "order")


DBOS.launch()
began = now()
waiting = []
for number in range(pairs):
    with SetWorkflowID(f"r{number}-{os.getpid()}"):
        waiting.append(DBOS.start_workflow(receives, number))
for number in range(pairs):
    DBOS.start_workflow(sends, number)
for handle in waiting:
    assert handle.get_result() == list(range(each))
emit("W12-pairs", f"dbos-{backend}", version("dbos"), pairs * each, now() - began, pairs=pairs)
sys.stdout.flush()
DBOS.destroy()
os._exit(0)
