// Delayed messages: never early, and cancelled when recalled in time.
import { check, checkEqual } from '../lib/harness.mjs';
import { SERVER, leftovers, receive } from '../lib/clients.mjs';

const LATE_MAX_MS = SERVER === 'apache' ? 5_000 : 1_000;

export async function delay(clients) {
  const { topic } = clients;
  const consumer = await clients.simpleConsumer();
  const producer = await clients.producer();
  const due = [3_000, 5_500].map((ms) => Date.now() + ms);
  for (const at of due) {
    await producer.send({ topic, tag: clients.tag, deliveryTimestamp: new Date(at), body: Buffer.from(String(at)) });
  }
  const arrivals = await receive(consumer, due.length);
  checkEqual(arrivals.map(({ message }) => Number(message.body.toString())), due, 'messages by due time');
  const late = arrivals.map(({ at }, i) => at - due[i]);
  for (const ms of late) {
    check(ms >= 0, `came ${-ms} ms early`);
    check(ms <= LATE_MAX_MS, `came ${ms} ms late`);
  }
  return `late by ${late.join(' and ')} ms`;
}

export async function recall(clients) {
  const { topic } = clients;
  const consumer = await clients.simpleConsumer();
  const producer = await clients.producer();
  const deliveryTimestamp = new Date(Date.now() + 6_000);
  const send = (body) => producer.send({ topic, tag: clients.tag, deliveryTimestamp, body: Buffer.from(body) });
  const receipt = await send('recalled');
  await send('kept');
  check(receipt.recallHandle, 'the send receipt has no recall handle');
  const recalled = await producer.recallMessage(topic, receipt.recallHandle);
  checkEqual(recalled.messageId, receipt.messageId, 'id of the recalled message');

  const arrivals = await receive(consumer, 1);
  checkEqual(arrivals.map(({ message }) => message.body.toString()), ['kept'], 'bodies');
  checkEqual(await leftovers(consumer), [], 'bodies after the kept one');
}
