package reflex;

/** A packed function, in Java or another language. */
public final class Function extends Value {
    Function(long value) {
        super(value, "function");
    }

    /** A packed function without a name. */
    public static Function of(PackedFunction body) {
        return new Function(Native.function(body));
    }

    /** Registers a packed function, which programs and other languages find by name. */
    public static void register(String name, PackedFunction body) {
        Native.register(Native.name(name), body);
    }

    /** The packed function that programs find under a name. */
    public static Function lookup(String name) {
        return new Function(Native.lookup(Native.name(name)));
    }

    public Object call(Object... args) {
        try (Arguments values = new Arguments(args)) {
            return with(pointer -> Native.taken(Native.callFunction(pointer, values.kinds, values.words)));
        }
    }
}
