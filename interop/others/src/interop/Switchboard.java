package interop;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/** For clients whose listeners are declared and exist before the scenarios do: connects each with its handler. */
final class Switchboard {
    private static final Map<String, CompletableFuture<Client.Handler>> HANDLERS = new ConcurrentHashMap<>();

    private static CompletableFuture<Client.Handler> handler(String group, int member) {
        return HANDLERS.computeIfAbsent(group + "#" + member, key -> new CompletableFuture<>());
    }

    static void connect(Client.Listening listening) {
        handler(listening.group(), listening.member()).complete(listening.handler());
    }

    /** Waits for the scenario, should a message be earlier. */
    static boolean take(String group, int member, Arrival arrival) {
        return handler(group, member).join().take(arrival);
    }
}
