"""W12 with procrastinate: a job each way, from one worker's queue to the other's and back.

    PYTHONPATH=PEERS PG_DSN=… python w12_procrastinate.py [PAIRSxMESSAGES [CONCURRENCY]]

PEERS is the folder of the peers' scripts, `$PG_DSN` a database that is emptied. Each message is a job that
the receiver's worker takes and answers by a job for the sender's.
"""

import asyncio
import logging
import os

import procrastinate
from _common import arg, emit, now, version

shape, concurrency = arg(1, "20x20"), arg(2, 10)
pairs, each = (int(part) for part in shape.split("x"))
logging.disable(logging.CRITICAL)
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["PG_DSN"]))
left = [pairs * each]


@app.task(name="order", queue="receiver")
async def order(pair, number):
    await answer.defer_async(pair=pair, number=number)


@app.task(name="answer", queue="sender")
async def answer(pair, number):
    left[0] -= 1


async def main():
    async with app.open_async():
        await app.connector.execute_query_async("drop schema public cascade")
        await app.connector.execute_query_async("create schema public")
        await app.schema_manager.apply_schema_async()
        how = {"wait": True, "concurrency": concurrency, "install_signal_handlers": False}
        workers = [
            asyncio.create_task(app.run_worker_async(queues=[name], **how)) for name in ("receiver", "sender")
        ]
        await asyncio.sleep(0.5)
        began = now()
        for pair in range(pairs):
            for number in range(each):
                await order.defer_async(pair=pair, number=number)
        while left[0]:
            await asyncio.sleep(0.001)
        seconds = now() - began
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    jobs = 2 * pairs * each
    emit("W12-pairs", "procrastinate-pg", version("procrastinate"), jobs, seconds, concurrency=concurrency)


asyncio.run(main())
