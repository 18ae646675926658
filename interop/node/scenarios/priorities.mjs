// Messages of a higher priority overtake a backlog of lower ones.
import { checkEqual } from '../lib/harness.mjs';
import { receive } from '../lib/clients.mjs';

const SENT = [1, 3, 2, 1, 3, 2, 1, 3];
const EXPECTED = ['3-1', '3-4', '3-7', '2-2', '2-5', '1-0', '1-3', '1-6'];

export async function order(clients) {
  const consumer = await clients.simpleConsumer();
  const producer = await clients.producer();
  for (const [i, priority] of SENT.entries()) {
    await producer.send({ topic: clients.topic, tag: clients.tag, priority, body: Buffer.from(`${priority}-${i}`) });
  }
  const arrivals = await receive(consumer, SENT.length, { batch: 1 });
  checkEqual(arrivals.map(({ message }) => message.body.toString()), EXPECTED, 'order');
}
