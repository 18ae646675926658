// SimpleConsumer: acknowledgement, invisible time, receipt handles.
import { check, checkEqual, sleep } from '../lib/harness.mjs';
import { SERVER, leftovers, receive } from '../lib/clients.mjs';

/** The shortest invisible time a receive may ask for. */
const INVISIBLE_MS = 10_000;
/** Apache wakes no waiting poll for a redelivery, so it can take a round of its revive and a whole poll longer. */
const EARLY_MS = 500;
const LATE_MS = SERVER === 'apache' ? 15_000 : 3_000;

export async function ack(clients) {
  const { consumer } = await sendBodies(clients, ['a', 'b', 'c']);
  const arrivals = await receive(consumer, 3, { invisible: INVISIBLE_MS });
  checkEqual(arrivals.map(({ message }) => message.body.toString()).sort(), ['a', 'b', 'c'], 'bodies');
  await sleep(INVISIBLE_MS + 1_000);
  checkEqual(await leftovers(consumer), [], 'bodies that came again although acknowledged');
}

export async function noAck(clients) {
  const { consumer } = await sendBodies(clients, ['again']);
  const [first] = await receive(consumer, 1, { invisible: INVISIBLE_MS, ack: false });
  check(first, 'the message did not arrive');
  checkEqual(first.message.deliveryAttempt, 1, 'first delivery attempt');
  const [second] = await receive(consumer, 1, { within: INVISIBLE_MS + LATE_MS });
  return checkRedelivery(first, second, INVISIBLE_MS);
}

/** One message becomes visible sooner than it was received for, the other later. */
export async function changeInvisible(clients) {
  const { consumer } = await sendBodies(clients, ['sooner', 'later']);
  const firsts = await receive(consumer, 2, { invisible: INVISIBLE_MS, ack: false });
  checkEqual(firsts.length, 2, 'number of first deliveries');
  const changes = { sooner: 3_000, later: 17_000 };
  const changed = {};
  for (const { message } of firsts) {
    const body = message.body.toString();
    const handle = message.receiptHandle;
    await consumer.changeInvisibleDuration(message, changes[body]);
    check(message.receiptHandle && message.receiptHandle !== handle, 'no new receipt handle');
    changed[body] = { message, at: Date.now() };
  }
  const seconds = await receive(consumer, 2, { within: changes.later + LATE_MS });
  checkEqual(seconds.map(({ message }) => message.body.toString()), ['sooner', 'later'], 'redeliveries');
  return seconds
    .map((second) => [second.message.body.toString(), second])
    .map(([body, second]) => `${body}: ${checkRedelivery(changed[body], second, changes[body])}`)
    .join(', ');
}

export async function staleHandle(clients) {
  const { consumer } = await sendBodies(clients, ['stale']);
  const [first] = await receive(consumer, 1, { invisible: INVISIBLE_MS, ack: false });
  check(first, 'the message did not arrive');
  const [second] = await receive(consumer, 1, { within: INVISIBLE_MS + LATE_MS, ack: false });
  check(second, 'the message did not come again');
  const refusal = await consumer.ack(first.message).then(() => null, (error) => error);
  check(refusal, 'the handle of an earlier delivery was accepted');
  check(refusal.code === 40013, `refused, but not as INVALID_RECEIPT_HANDLE: ${refusal.message}`);
  await consumer.ack(second.message);
}

function checkRedelivery(first, second, invisibleMs) {
  check(second, 'the message did not come again');
  checkEqual(second.message.messageId, first.message.messageId, 'message id of the redelivery');
  checkEqual(second.message.deliveryAttempt, 2, 'delivery attempt of the redelivery');
  const after = second.at - first.at;
  check(after >= invisibleMs - EARLY_MS, `came again after ${after} ms, invisible for ${invisibleMs}`);
  check(after <= invisibleMs + LATE_MS, `came again only after ${after} ms, invisible for ${invisibleMs}`);
  return `again after ${after} ms`;
}

async function sendBodies(clients, bodies) {
  const { topic } = clients;
  const consumer = await clients.simpleConsumer();
  const producer = await clients.producer();
  for (const body of bodies) await producer.send({ topic, tag: clients.tag, body: Buffer.from(body) });
  return { consumer, producer };
}
