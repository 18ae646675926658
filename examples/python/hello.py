from rocketmq import ClientConfiguration, Credentials, Message, Producer, SimpleConsumer

server = ClientConfiguration("127.0.0.1:8081", Credentials("", ""))

consumer = SimpleConsumer(server, "shop-python")
consumer.startup()
consumer.subscribe("orders")
consumer.receive(32, 15)  # a new group begins at the newest message of its first receive

producer = Producer(server, ("orders",))
producer.startup()
message = Message()
message.topic, message.body, message.tag = "orders", b"hello from Python", "greeting"
print("sent", producer.send(message).message_id)

for received in consumer.receive(32, 15):
    print("received", received.body.decode())
    consumer.ack(received)

producer.shutdown()
consumer.shutdown()
