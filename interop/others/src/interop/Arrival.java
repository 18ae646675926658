package interop;

/** A message as a listener got it; the first attempt is 0. What the client does not tell is null. */
record Arrival(String id, String topic, String tag, String key, byte[] body, int attempt, long at) {
    Arrival(String id, String topic, String tag, String key, byte[] body, int attempt) {
        this(id, topic, tag, key, body, attempt, System.currentTimeMillis());
    }

    String label() {
        return Letter.label(body);
    }
}
