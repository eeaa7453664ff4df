package reflex;

/**
 * A packed function in Java. Programs call it on any of their threads. Arguments and results are null,
 * Boolean, Long, Double, String, {@link Tensor}, {@code long[]} (shapes), {@link java.util.List} (tuples),
 * {@link Function} and {@link Value}; results and arguments of calls may also be other boxed numbers, arrays of
 * objects, and packed functions. What it throws is the error of the call, of the kind that the simple name
 * of the class says; a {@link ReflexException} keeps its kind.
 */
@FunctionalInterface
public interface PackedFunction {
    /** The arguments are its own, and may be kept. */
    Object call(Object... args) throws Exception;
}
