package reflex;

import java.nio.charset.StandardCharsets;

/** A failure in the library or in a packed function. */
public final class ReflexException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What failed, as in C. */
    public enum Status {
        OK, IO, MODEL, UNSUPPORTED, INPUT, COMPILE, RUN, CANCELLED, DEADLINE, FUEL, STACK, INTERNAL
    }

    private final String kind;
    private final Status status;
    private final String backtrace;

    /** Made by the library. */
    ReflexException(byte[] kind, byte[] message, int status, byte[] backtrace) {
        super(new String(message, StandardCharsets.UTF_8));
        this.kind = new String(kind, StandardCharsets.UTF_8);
        this.status = Status.values()[status];
        this.backtrace = new String(backtrace, StandardCharsets.UTF_8);
    }

    /** For a packed function to throw: an error of this kind. */
    public ReflexException(String kind, String message) {
        super(message);
        this.kind = kind;
        this.status = Status.RUN;
        this.backtrace = "";
    }

    /** The name of the error, such as {@code TypeError}. */
    public String kind() {
        return kind;
    }

    public Status status() {
        return status;
    }

    /** A line for each function of the program that was active, innermost first. */
    public String backtrace() {
        return backtrace;
    }
}
