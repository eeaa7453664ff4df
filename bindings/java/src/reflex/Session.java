package reflex;

import java.time.Duration;

/** The running state of a program. It runs one call at a time; a second one meanwhile is an error. */
public final class Session extends Handle {
    /** The way functions run. All modes give the same bits. */
    public enum Mode {
        TIERED, BYTECODE, COMPILED
    }

    /** Stops the runs of a session from another thread. */
    public static final class Canceller extends Handle {
        private Canceller(long canceller) {
            super("canceller", canceller, Native::freeCanceller);
        }

        /** Makes the current run, and later ones until a reset, fail soon. */
        public void cancel() {
            using(pointer -> Native.cancel(pointer, true));
        }

        public void reset() {
            using(pointer -> Native.cancel(pointer, false));
        }
    }

    Session(long session) {
        super("session", session, Native::freeSession);
    }

    /**
     * Calls a function of the program; {@link PackedFunction} says what values are. A result may be a
     * constant of the program, or an argument itself, whose data is not to be written.
     */
    public Object call(String function, Object... args) {
        try (Arguments values = new Arguments(args)) {
            byte[] name = Native.name(function);
            return with(pointer -> Native.taken(Native.call(pointer, name, values.kinds, values.words)));
        }
    }

    /** Calls a function until nothing more of it is being compiled, and returns the number of calls. */
    public long warmUp(String function, Object... args) {
        try (Arguments values = new Arguments(args)) {
            byte[] name = Native.name(function);
            return with(pointer -> Native.warmUp(pointer, name, values.kinds, values.words));
        }
    }

    /** Limits later runs: a unit for each function entered and each backward jump; negative is no limit. */
    public void setFuel(long fuel) {
        using(pointer -> Native.setFuel(pointer, fuel));
    }

    /** Makes runs fail that go on for longer than so long from now; null is no limit. */
    public void setTimeout(Duration limit) {
        long nanoseconds = limit == null ? -1 : Math.max(0, limit.toNanos());
        using(pointer -> Native.setDeadline(pointer, nanoseconds));
    }

    public Canceller canceller() {
        return with(pointer -> new Canceller(Native.newCanceller(pointer)));
    }
}
