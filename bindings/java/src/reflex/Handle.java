package reflex;

import java.lang.ref.Cleaner;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/** Something of the library's. It is freed when it is closed, or when the garbage collector finds it. */
abstract class Handle implements AutoCloseable {
    static final Cleaner CLEANER = Cleaner.create();

    final Resource resource;
    private final Cleaner.Cleanable cleanable;

    Handle(String what, long pointer, LongConsumer free) {
        resource = new Resource(what, pointer, free);
        cleanable = CLEANER.register(this, resource);
    }

    /** Calls with the pointer, which stays valid meanwhile. */
    <T> T with(LongFunction<T> call) {
        long pointer = resource.open();
        try {
            return call.apply(pointer);
        } finally {
            resource.done();
        }
    }

    void using(LongConsumer call) {
        with(pointer -> {
            call.accept(pointer);
            return null;
        });
    }

    /** Frees it, once no call uses it. */
    @Override
    public void close() {
        cleanable.clean();
    }
}
