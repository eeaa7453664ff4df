//! Names of variables and buffers in the text: those of the function, as far as the languages allow it.

use std::collections::{HashMap, HashSet};

/// Words that no variable may have: keywords of C, C++, CUDA and OpenCL, macros and functions that text mentions.
const RESERVED: &str = "alignas alignof and asm atomic auto bool break case catch char class complex const \
    constexpr constant continue decltype default delete do double dynamic_cast else enum explicit export extern \
    false float for friend generic global goto half if image inline int int8_t int16_t int32_t int64_t kernel local \
    long mutable namespace new noexcept not null nullptr operator or pipe private protected public quad read_only \
    read_write register reinterpret_cast restrict return sampler_t short signed size_t sizeof static static_assert \
    static_cast struct switch template this thread_local throw true try typedef typeid typename typeof uchar uint \
    uint8_t uint16_t uint32_t uint64_t ulong union unsigned ushort using virtual void volatile wchar_t while \
    write_only xor \
    linux unix i386 main errno stdin stdout stderr barrier fma fmaf floor floorf ceil ceilf trunc truncf rint rintf \
    fabs fabsf sqrt sqrtf fmod fmodf exp expf log logf sin sinf cos cosf tan tanf asin asinf acos acosf atan atanf \
    sinh sinhf cosh coshf tanh tanhf asinh asinhf acosh acoshf atanh atanhf erf erff pow powf as_float as_double \
    as_uint as_ulong as_int as_long get_local_id get_group_id threadIdx blockIdx blockDim gridDim warpSize \
    min max select shared_memory data status args count self result memcpy memset";

/// Names that are taken, in nested scopes.
#[derive(Default)]
pub struct Names {
    taken: HashSet<String>,
    /// In the order of their declarations.
    declared: Vec<String>,
    /// The number to try next for a name that was taken.
    next: HashMap<String, u32>,
}

impl Names {
    /// Declares a variable or buffer with this name, or one like it.
    pub fn declare(&mut self, hint: &str) -> String {
        let base = identifier(hint);
        let mut name = base.clone();
        while is_reserved(&name) || self.taken.contains(&name) {
            let number = self.next.entry(base.clone()).or_insert(0);
            *number += 1;
            // A number alone would leave a macro's name a name in capitals.
            let mark = if is_capital(&base) { "v" } else { "" };
            name = format!("{base}_{mark}{number}");
        }
        self.taken.insert(name.clone());
        self.declared.push(name.clone());
        name
    }

    /// The place that [`Names::close`] goes back to.
    pub fn open(&self) -> usize {
        self.declared.len()
    }

    /// Forgets what was declared since.
    pub fn close(&mut self, mark: usize) {
        for name in self.declared.drain(mark..) {
            self.next.remove(&name);
            self.taken.remove(&name);
        }
    }
}

/// Letters, digits and underlines, of which the first is a letter: no name of the implementation's, and no prefix of
/// the helpers'.
fn identifier(hint: &str) -> String {
    let kept = hint.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let name: String = kept.take(64).collect();
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() && !name.starts_with("rf_") => name,
        _ => format!("v{name}"),
    }
}

fn is_capital(name: &str) -> bool {
    name.chars().all(|c| !c.is_ascii_lowercase())
}

/// Whether a name means something else; macros are in capitals.
fn is_reserved(name: &str) -> bool {
    name.len() > 1 && is_capital(name) || RESERVED.split_ascii_whitespace().any(|word| word == name)
}

/// Whether a function may have this name in the text.
pub fn is_identifier(name: &str) -> bool {
    let first = name.chars().next();
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    fits && first.is_some_and(|c| !c.is_ascii_digit())
}

/// The name of a kernel of a GPU, which nothing stands in front of: another one where it means something else.
pub fn kernel_name(name: String) -> String {
    match identifier(&name) == name && !is_reserved(&name) {
        true => name,
        false => format!("{name}_kernel"),
    }
}

/// A text as a literal.
pub fn literal(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | b'?' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            // A NUL ends the text, nothing worse.
            other => quoted.push_str(&format!("\\{other:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_mean_nothing_else() {
        let mut names = Names::default();
        let hints = ["x", "x", "kernel", "NULL", "N", "2d", "a.b", "rf_add", "", "linux", "_x"];
        let found = hints.map(|hint| names.declare(hint));
        let expected = [
            "x", "x_1", "kernel_1", "NULL_v1", "N", "v2d", "a_b", "vrf_add", "v", "linux_1", "v_x",
        ];
        assert_eq!(found, expected);
        let mark = names.open();
        assert_eq!(names.declare("i"), "i");
        names.close(mark);
        assert_eq!(names.declare("i"), "i");
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(literal("a \"b\" \\ ??\n\u{e9}"), r#""a \"b\" \\ \?\?\012\303\251""#);
    }
}
