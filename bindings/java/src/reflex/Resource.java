package reflex;

import java.util.function.LongConsumer;

/** What a handle owns. What is closed during a call is freed when the call has ended. */
final class Resource implements Runnable {
    private final String what;
    private final LongConsumer free;
    private long pointer;
    private int users;
    private boolean closed;

    Resource(String what, long pointer, LongConsumer free) {
        this.what = what;
        this.pointer = pointer;
        this.free = free;
    }

    /** The pointer for a call, after which the caller calls {@link #done}. */
    synchronized long open() {
        if (closed) throw new IllegalStateException("the " + what + " is closed");
        users++;
        return pointer;
    }

    synchronized void done() {
        users--;
        release();
    }

    /** Closes it. */
    @Override
    public synchronized void run() {
        closed = true;
        release();
    }

    private void release() {
        if (!closed || users > 0 || pointer == 0) return;
        free.accept(pointer);
        pointer = 0;
    }
}
