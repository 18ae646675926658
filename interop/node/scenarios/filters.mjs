// Server-side filtering by tag and by SQL expression.
import rocketmq from 'rocketmq-client-nodejs';

import { checkEqual } from '../lib/harness.mjs';
import { leftovers, receive } from '../lib/clients.mjs';

/** FilterType.SQL; the package does not export the enum. */
const SQL = 2;

export async function tagFilter(clients) {
  const { topic } = clients;
  const tag = (name) => `${clients.tag}-${name}`;
  const filter = `${tag('A')} || ${tag('B')}`;
  const consumer = await clients.simpleConsumer({ filter });
  const producer = await clients.producer();
  for (const name of ['A', 'C', 'B', 'C', 'A']) {
    await producer.send({ topic, tag: tag(name), body: Buffer.from(name) });
  }
  await producer.send({ topic, body: Buffer.from('untagged') });
  await expectBodies(consumer, ['A', 'A', 'B']);
}

export async function sqlFilter(clients) {
  const { topic } = clients;
  const expression = `run = '${clients.tag}' AND price BETWEEN 10 AND 20 AND color IN ('red', 'blue') AND hidden IS NULL`;
  const filter = new rocketmq.FilterExpression(expression, SQL);
  const consumer = await clients.simpleConsumer({ filter });
  const producer = await clients.producer();
  const send = (body, properties) =>
    producer.send({ topic, body: Buffer.from(body), properties: new Map([['run', clients.tag], ...Object.entries(properties)]) });
  await send('fits', { price: '10', color: 'red' });
  await send('too dear', { price: '21', color: 'red' });
  await send('wrong color', { price: '15', color: 'green' });
  await send('no price', { color: 'red' });
  await send('hidden', { price: '15', color: 'red', hidden: 'yes' });
  await send('fits too', { price: '20', color: 'blue' });
  await expectBodies(consumer, ['fits', 'fits too']);
}

async function expectBodies(consumer, expected) {
  const arrivals = await receive(consumer, expected.length);
  const bodies = arrivals.map(({ message }) => message.body.toString()).sort();
  checkEqual(bodies, expected, 'bodies that passed the filter');
  checkEqual(await leftovers(consumer), [], 'bodies after the expected ones');
}
