"""Orders come from all areas at once while dispatchers, the office and the broker are killed. Then the books are compared with what was
promised: per area first come first served, no car with two passengers, no ride booked twice, nobody forgotten, every car comes back."""

import http.client
import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
AREAS = ["airport", "harbour", "market", "station", "theatre", "university"]
CARS_AN_AREA = 2
PASSENGERS = 8
# Nothing may stand still for longer than this.
PATIENCE = 60


def post(address, value):
    request = urllib.request.Request(address, data=json.dumps(value).encode(),
                                     headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or "null")


def order(town, count, seconds, accepted, lock):
    """One passenger, who orders again and again. An order that was answered with an error may be in the books all the same, or not."""
    for number in range(count):
        area = random.choice(AREAS)
        try:
            answer = post(f"{town.address}/orders", {"passenger": f"p{random.randrange(50)}", "area": area})
            with lock:
                accepted.append(answer["id"])
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(random.uniform(0.5, 1.5) * seconds / count)


class Kills:
    """Kills a dispatcher about once a second, now and then the office, and the broker twice. Starts again what was killed, and what
    ended by itself: the programs do so at dangerous places."""

    def __init__(self, town, seconds):
        self.town, self.seconds = town, seconds
        self.processes = {f"dispatcher {n}": (town.role("dispatch"), lambda: town.role("dispatch")) for n in range(3)}
        self.processes["office"] = (town.office, lambda: town.role("office"))
        self.processes["service"] = (town.service, lambda: town.role("service"))
        self.processes["broker"] = (town.broker, town.start_broker)
        self.killed, self.ended = 0, 0
        # Nothing is killed any more; what ends by itself is still started again.
        self.quiet = threading.Event()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def run(self):
        began, broker_at = time.monotonic(), [self.seconds / 3, self.seconds * 2 / 3]
        kill_at = began
        while not self.stop.wait(0.1):
            self.start_again()
            if self.quiet.is_set() or time.monotonic() < kill_at:
                continue
            kill_at = time.monotonic() + random.uniform(0.3, 1.5)
            self.kill(f"dispatcher {random.randrange(3)}")
            if random.random() < 0.2:
                self.kill("office")
            if broker_at and time.monotonic() - began > broker_at[0]:
                broker_at.pop(0)
                self.kill("broker")

    def kill(self, name):
        process, start = self.processes[name]
        process.kill()
        process.wait()
        self.killed += 1
        self.processes[name] = (start(), start)

    def start_again(self):
        for name, (process, start) in self.processes.items():
            if process.poll() is not None:
                self.ended += 1
                self.processes[name] = (start(), start)


def rows(town, statement):
    with sqlite3.connect(f"file:{town.database}?mode=ro", uri=True, timeout=30) as books:
        return books.execute(statement).fetchall()


def redis(town, *words):
    done = subprocess.run(["redis-cli", "-p", str(town.redis_port), *words], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def unfinished(town):
    """What is still to come, in words; empty if all is done."""
    found = []
    for state, count in rows(town, "SELECT state, COUNT(*) FROM orders WHERE state IN ('waiting', 'riding') GROUP BY state"):
        found.append(f"{count} {state}")
    notices = rows(town, "SELECT (SELECT COUNT(*) FROM notices), (SELECT COALESCE(SUM(CASE state WHEN 'done' THEN 2 ELSE 1 END), 0) FROM orders)")[0]
    if notices[0] < notices[1]:
        found.append(f"{notices[1] - notices[0]} notices")
    free = sum(len(redis(town, "LRANGE", f"taxi:free:{area}", "0", "-1")) for area in AREAS)
    if free < len(AREAS) * CARS_AN_AREA:
        found.append(f"{len(AREAS) * CARS_AN_AREA - free} cars on the road")
    if not rows(town, "SELECT id FROM letters"):
        found.append("a dead letter")
    return ", ".join(found)


def wait_until_done(town):
    last, moved = None, time.monotonic()
    while left := unfinished(town):
        if left != last:
            last, moved = left, time.monotonic()
        if time.monotonic() - moved > PATIENCE:
            raise SystemExit(f"FAILED: nothing moves any more: {left}")
        time.sleep(0.5)


def faults(town, accepted):
    """Every promise that was broken, in words."""
    orders = {id: (area, state) for id, area, state in rows(town, "SELECT id, area, state FROM orders")}
    for id in accepted:
        if id not in orders:
            yield f"order {id} was accepted and is not in the books"
    for id, (_, state) in orders.items():
        if state not in ("done", "given up"):
            yield f"order {id} is {state}"
    rides = rows(town, "SELECT what, order_id, car, area FROM rides ORDER BY id")
    for what in ("start", "end"):
        served = [id for kind, id, _, _ in rides if kind == what]
        if len(served) != len(set(served)):
            yield f"a {what} was booked twice"
        if set(served) != {id for id, (_, state) in orders.items() if state == "done"}:
            yield f"the {what}s booked are not those of the orders that are done"
    for area in AREAS:
        begun = [id for kind, id, _, where in rides if kind == "start" and where == area]
        if begun != sorted(begun):
            yield f"{area}: served {begun}, which is not first come first served"
    passengers = {}
    for kind, id, car, _ in rides:
        if kind == "start" and car in passengers:
            yield f"{car} had order {passengers[car]} when it got {id}"
        if kind == "start":
            passengers[car] = id
        elif passengers.pop(car, None) != id:
            yield f"{car} ended the ride of order {id}, which it did not have"
    told = {}
    for id, text in rows(town, "SELECT order_id, text FROM notices ORDER BY id"):
        told.setdefault(id, []).append(text.partition(" ")[2] if text.startswith("car-") else text)
    for id, (_, state) in orders.items():
        expected = ["is coming", "you have arrived"] if state == "done" else ["no car was free, sorry"]
        if told.get(id) != expected:
            yield f"the passenger of order {id} ({state}) was told {told.get(id)}"
    free = [car for area in AREAS for car in redis(town, "LRANGE", f"taxi:free:{area}", "0", "-1")]
    if sorted(free) != sorted(redis(town, "SMEMBERS", "taxi:cars")) or len(free) != len(set(free)):
        yield f"free cars at the end: {free}"
    if redis(town, "HLEN", "taxi:assigned") != ["0"] or redis(town, "HLEN", "taxi:serving") != ["0"]:
        yield "cars are still assigned"
    letters = rows(town, "SELECT topic, reason FROM letters")
    if len(letters) != 1 or letters[0][0] != "taxi-orders" or not letters[0][1]:
        yield f"dead letters: {letters}"


def course_faults(town, listener):
    """The Java program of the course has seen every order, those of an area in their order; a repetition is not new."""
    expected = {}
    for id, area in rows(town, "SELECT id, area FROM orders ORDER BY id"):
        expected.setdefault(area, []).append(id)
    deadline = time.monotonic() + PATIENCE
    while True:
        seen = {}
        for line in listener.read_text().splitlines():
            if line.startswith("order "):
                _, area, id = line.split()
                if int(id) not in seen.setdefault(area, []):
                    seen[area].append(int(id))
        if seen == expected:
            return
        if time.monotonic() > deadline:
            yield from (f"the Java consumer saw of {area}: {seen.get(area)}" for area in expected
                        if seen.get(area) != expected[area])
            return
        time.sleep(0.5)


def java_classpath(folder):
    """The jars of RocketMQ's 4.x client, by Maven, and the compiled program."""
    jars, classes = folder / "java.classpath", folder / "java"
    subprocess.run(["mvn", "-q", "-B", "-Dstyle.color=never", "-f", HERE / "java" / "pom.xml", "dependency:build-classpath",
                    f"-Dmdep.outputFile={jars}"], check=True, stdin=subprocess.DEVNULL)
    classpath = jars.read_text().strip()
    subprocess.run(["javac", "-nowarn", "-d", classes, "-cp", classpath, HERE / "java" / "src" / "CourseConsumer.java"],
                   check=True)
    return f"{classes}:{classpath}"


def run(town, options):
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    random.seed(seed)
    print(f"seed {seed}")
    classpath = java_classpath(town.folder)
    town.open()
    for area in AREAS:
        for number in range(CARS_AN_AREA):
            post(f"{town.address}/cars", {"car": f"car-{area}-{number}", "area": area})
    town.start("java", "java", "-cp", classpath, "CourseConsumer", f"127.0.0.1:{town.namesrv}")
    town.command("message", "send", "taxi-orders", "--group", "nowhere", "--body", "not an order")
    accepted, lock = [], threading.Lock()
    share = options.orders // PASSENGERS
    passengers = [threading.Thread(target=order, args=(town, share, options.seconds, accepted, lock))
                  for _ in range(PASSENGERS)]
    began = time.monotonic()
    with Kills(town, options.seconds) as kills:
        for passenger in passengers:
            passenger.start()
        for passenger in passengers:
            passenger.join()
        kills.quiet.set()
        wait_until_done(town)
    took = time.monotonic() - began
    broken = [*faults(town, accepted), *course_faults(town, town.folder / "java.log")]
    states = dict(rows(town, "SELECT state, COUNT(*) FROM orders GROUP BY state"))
    print(f"{len(accepted)} orders accepted, {states}, in {took:.0f} s; "
          f"{kills.killed} processes killed, {kills.ended} ended at a dangerous place")
    if broken:
        print("\n".join(broken[:20]), file=sys.stderr)
        raise SystemExit(f"FAILED: {len(broken)} promises broken")
    print("every promise was kept")
