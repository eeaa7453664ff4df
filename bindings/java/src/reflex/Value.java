package reflex;

/** A value of the library's that Java has no type for, such as a map; it can be passed on. */
public class Value extends Handle {
    Value(long value, String what) {
        super(what, value, Native::freeValue);
    }
}
