//! Attention caches: tensors of which a prefix of the rows is filled, and which grow. TVM's
//! `vm.builtin.attention_kv_cache_*` on its older form of cache, one tensor for each layer.
//!
//! Appending writes in place, so views of rows that were filled before stay valid. In a window of the
//! last rows, new ones override the oldest; the first rows may be kept as attention sinks
//! (Xiao et al., Efficient Streaming Language Models with Attention Sinks, arXiv 2309.17453).

use parking_lot::Mutex;

use crate::array::Array;
use crate::error::Error;
use crate::function::{arg, arg_ref, check_arity};
use crate::object::{self, RustObject};
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::value::{Any, AnyView};

/// A cache, as an object.
struct KvCache(Mutex<Rows>);

impl RustObject for KvCache {
    const KEY: &'static str = "reflex.AttentionKVCache";
}

struct Rows {
    /// All rows, filled and free ones.
    data: Tensor,
    /// Rows that are filled.
    filled: usize,
    /// The row that the next one of a window is written to.
    next: usize,
}

/// `attention_kv_cache_create(init, shape, fill_count)`: a cache with room for `shape`, whose first
/// rows are `init`. A fill count that is not negative overrides the number of rows of `init`.
pub(super) fn create(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.attention_kv_cache_create", args, 3)?;
    let (init, reserve, fill): (Tensor, Shape, i64) = (arg(args, 0)?, arg(args, 1)?, arg(args, 2)?);
    if reserve.first().is_none_or(|rows| *rows < 1) {
        return Err(Error::value_error(format!("a cache of shape {:?} has no rows", &*reserve)));
    }
    let mut rows = Rows { data: Tensor::empty(&reserve, init.dtype())?, filled: 0, next: 0 };
    rows.append(&init)?;
    if let Ok(fill) = usize::try_from(fill) {
        if fill > rows.capacity() {
            let capacity = rows.capacity();
            return Err(Error::value_error(format!("{fill} of {capacity} rows cannot be filled")));
        }
        (rows.filled, rows.next) = (fill, fill);
    }
    Ok(object::wrap(KvCache(Mutex::new(rows))).into())
}

/// `attention_kv_cache_update(cache, value)`: overwrites all filled rows.
pub(super) fn update(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.attention_kv_cache_update", args, 2)?;
    let value = arg_ref::<Tensor>(args, 1)?;
    change(args, |rows| {
        let count = rows.count(value)?;
        if count != rows.filled {
            let filled = rows.filled;
            return Err(Error::value_error(format!("{count} rows for a cache of {filled}")));
        }
        rows.write(value, 0, 0, count)
    })
}

/// `attention_kv_cache_append(cache, value)`
pub(super) fn append(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.attention_kv_cache_append", args, 2)?;
    let value = arg_ref::<Tensor>(args, 1)?;
    change(args, |rows| rows.append(value))
}

/// `attention_kv_cache_window_override(cache, value, rows)`: appends in a window of so many rows.
pub(super) fn window_override(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.attention_kv_cache_window_override", args, 3)?;
    let (value, window) = (arg_ref::<Tensor>(args, 1)?, arg(args, 2)?);
    change(args, |rows| rows.override_oldest(value, window, 0))
}

/// `attention_kv_cache_window_override_with_sinks(cache, value, rows, sinks)`: the same, and the first
/// `sinks` rows stay.
pub(super) fn window_override_with_sinks(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.attention_kv_cache_window_override_with_sinks", args, 4)?;
    let (value, window, sinks) = (arg_ref::<Tensor>(args, 1)?, arg(args, 2)?, arg(args, 3)?);
    change(args, |rows| rows.override_oldest(value, window, sinks))
}

/// `attention_kv_cache_view(cache, shape?)`: the filled rows; `shape` is theirs.
pub(super) fn view(args: &[AnyView<'_>]) -> Result<Any, Error> {
    let asked: Option<Shape> = match args.len() {
        1 => None,
        2 => Some(arg(args, 1)?),
        given => {
            let message = format!(
                "`vm.builtin.attention_kv_cache_view` expects 1 or 2 arguments, but got {given}."
            );
            return Err(Error::value_error(message));
        }
    };
    let rows = cache(&args[0])?.0.lock();
    let mut shape = rows.data.shape().to_vec();
    shape[0] = rows.filled as i64;
    if let Some(asked) = asked.filter(|asked| **asked != *shape) {
        let message = format!("a view of shape {:?} of filled rows of {shape:?}", &*asked);
        return Err(Error::value_error(message));
    }
    Ok(rows.data.view(0, &shape, rows.data.dtype())?.into())
}

/// `attention_kv_cache_array_popn(caches, n)`: forgets the last rows of each.
pub(super) fn array_popn(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.attention_kv_cache_array_popn", args, 2)?;
    let (caches, count) = (arg_ref::<Array>(args, 0)?, arg::<i64>(args, 1)?);
    for item in caches.iter() {
        let item = item.view();
        let mut rows = cache(&item)?.0.lock();
        let left = usize::try_from(count).ok().and_then(|count| rows.filled.checked_sub(count));
        let wrong = || Error::value_error(format!("{count} of {} rows popped", rows.filled));
        rows.filled = left.ok_or_else(wrong)?;
    }
    Ok(Any::NONE)
}

/// `attention_kv_cache_array_clear(caches)`
pub(super) fn array_clear(args: &[AnyView<'_>]) -> Result<Any, Error> {
    check_arity("vm.builtin.attention_kv_cache_array_clear", args, 1)?;
    for item in arg_ref::<Array>(args, 0)?.iter() {
        let item = item.view();
        let mut rows = cache(&item)?.0.lock();
        (rows.filled, rows.next) = (0, 0);
    }
    Ok(Any::NONE)
}

/// Changes the cache that is the first argument, and returns it.
fn change(
    args: &[AnyView<'_>],
    change: impl FnOnce(&mut Rows) -> Result<(), Error>,
) -> Result<Any, Error> {
    change(&mut cache(&args[0])?.0.lock())?;
    Ok(args[0].to_owned())
}

fn cache<'a>(value: &'a AnyView<'_>) -> Result<&'a KvCache, Error> {
    let found = value.object_ref().and_then(object::get::<KvCache>);
    found.ok_or_else(|| value.mismatch(KvCache::KEY))
}

impl Rows {
    fn capacity(&self) -> usize {
        self.data.shape()[0] as usize
    }

    /// The number of rows in `value`, which has the element type and the other extents of the cache.
    fn count(&self, value: &Tensor) -> Result<usize, Error> {
        let (shape, own) = (value.shape(), self.data.shape());
        let fits = shape.len() == own.len() && shape[1..] == own[1..];
        if !fits || value.dtype() != self.data.dtype() || !value.is_compact() {
            return Err(Error::value_error(format!(
                "rows of {:?} {} for a cache of {own:?} {}",
                shape,
                value.dtype(),
                self.data.dtype()
            )));
        }
        Ok(shape[0] as usize)
    }

    /// Grows the storage to `rows` rows and keeps the filled ones.
    fn reserve(&mut self, rows: usize) -> Result<(), Error> {
        let mut capacity = self.capacity();
        while capacity < rows {
            capacity = capacity.saturating_mul(2);
        }
        if capacity == self.capacity() {
            return Ok(());
        }
        let mut shape = self.data.shape().to_vec();
        shape[0] = i64::try_from(capacity).unwrap_or(i64::MAX);
        let larger = Tensor::empty(&shape, self.data.dtype())?;
        let smaller = std::mem::replace(&mut self.data, larger);
        let kept = smaller.shape()[0] as usize;
        self.write(&smaller, 0, 0, kept)
    }

    /// Copies `count` rows of `value`, from row `from` on, to row `to` on.
    fn write(&mut self, value: &Tensor, from: usize, to: usize, count: usize) -> Result<(), Error> {
        let row = self.data.nbytes() / self.capacity();
        let fits = from + count <= value.shape()[0] as usize && to + count <= self.capacity();
        let on_host = value.device() == self.data.device();
        if !fits || !on_host {
            return Err(Error::value_error("the rows do not fit the cache"));
        }
        // SAFETY: both tensors are compact, in main memory, with rows of `row` bytes, and both ranges of
        // rows are within them. They may overlap: a value may be a view of the cache.
        unsafe {
            let to = self.data.data_ptr().add(to * row);
            std::ptr::copy(value.data_ptr().add(from * row), to, count * row);
        }
        Ok(())
    }

    fn append(&mut self, value: &Tensor) -> Result<(), Error> {
        let count = self.count(value)?;
        self.reserve(self.filled.saturating_add(count))?;
        self.write(value, 0, self.filled, count)?;
        self.filled += count;
        Ok(())
    }

    fn override_oldest(&mut self, value: &Tensor, window: i64, sinks: i64) -> Result<(), Error> {
        let count = self.count(value)?;
        let (window, sinks) = (usize::try_from(window), usize::try_from(sinks));
        let (Ok(window), Ok(sinks)) = (window, sinks) else {
            return Err(Error::value_error("a window of a negative number of rows"));
        };
        if window.checked_sub(sinks).is_none_or(|free| count > free) {
            let message = format!("{count} rows in a window of {window} with {sinks} sinks");
            return Err(Error::value_error(message));
        }
        self.reserve(self.filled.saturating_add(count).min(window))?;
        let until_end = count.min(window.saturating_sub(self.next));
        self.write(value, 0, self.next, until_end)?;
        self.filled = (self.filled + count).min(window);
        self.next = (self.next + count).min(window);
        if until_end < count {
            // The rest overrides the oldest rows after the sinks.
            self.write(value, until_end, sinks, count - until_end)?;
            self.next = sinks + count - until_end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    fn call(name: &str, args: &[Any]) -> Result<Any, Error> {
        let views: Vec<AnyView<'_>> = args.iter().map(Any::view).collect();
        let name = format!("vm.builtin.attention_kv_cache_{name}");
        registry::get(&name).expect("a function of this module").call(&views)
    }

    /// Rows of two elements, each of one number.
    fn rows(numbers: impl IntoIterator<Item = i32>) -> Any {
        let numbers: Vec<i32> = numbers.into_iter().flat_map(|number| [number; 2]).collect();
        Tensor::from_slice(&[numbers.len() as i64 / 2, 2], &numbers).unwrap().into()
    }

    fn numbers(cache: &Any) -> Vec<i32> {
        let view = call("view", std::slice::from_ref(cache)).unwrap();
        let all = view.downcast_ref::<Tensor>().unwrap().to_vec::<i32>().unwrap();
        all.chunks(2).map(|row| row[0]).collect()
    }

    fn new(init: Any, capacity: i64, filled: i64) -> Any {
        call("create", &[init, Shape::new(&[capacity, 2]).into(), filled.into()]).unwrap()
    }

    #[test]
    fn appended_rows_follow_each_other_and_old_views_stay() {
        let cache = new(rows([0]), 2, 0);
        let mut old = Any::NONE;
        for step in 0..5 {
            call("append", &[cache.clone(), rows([step])]).unwrap();
            if step == 1 {
                old = call("view", &[cache.clone(), Shape::new(&[2, 2]).into()]).unwrap();
            }
        }
        assert_eq!(numbers(&cache), [0, 1, 2, 3, 4]);
        assert_eq!(old.downcast_ref::<Tensor>().unwrap().to_vec::<i32>().unwrap(), [0, 0, 1, 1]);
        call("update", &[cache.clone(), rows(5..10)]).unwrap();
        assert_eq!(numbers(&cache), [5, 6, 7, 8, 9]);
        let caches = Any::from(Array::new([cache.clone()]));
        call("array_popn", &[caches.clone(), 3_i64.into()]).unwrap();
        assert_eq!(numbers(&cache), [5, 6]);
        call("array_clear", &[caches]).unwrap();
        assert!(numbers(&cache).is_empty());
    }

    #[test]
    fn a_window_holds_the_last_rows_and_the_sinks() {
        let (cache, mut all, mut next) = (new(rows([-1; 16]), 16, 4), vec![], 4);
        for step in 1..10 {
            call(
                "window_override",
                &[cache.clone(), rows(vec![step; step as usize]), 16_i64.into()],
            )
            .unwrap();
            all.extend(vec![step; step as usize]);
            next = (next + step as usize) % 16;
        }
        let mut found = numbers(&cache);
        found.rotate_left(next);
        assert_eq!(found, all[all.len() - 16..]);

        let cache = new(rows([-1; 16]), 16, 0);
        for step in 0..40 {
            let args = [cache.clone(), rows([step]), 16_i64.into(), 2_i64.into()];
            call("window_override_with_sinks", &args).unwrap();
        }
        let mut found = numbers(&cache);
        assert_eq!(found[..2], [0, 1]);
        found[2..].sort_unstable();
        assert_eq!(found[2..], (26..40).collect::<Vec<_>>());
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let cache = new(rows([1, 2]), 2, -1);
        let refused = |name: &str, args: &[Any]| call(name, args).unwrap_err().to_string();
        let wide = Any::from(Tensor::from_slice(&[1, 3], &[0_i32; 3]).unwrap());
        let text = refused("append", &[cache.clone(), wide]);
        assert_eq!(text, "ValueError: rows of [1, 3] int32 for a cache of [2, 2] int32");
        let float = Any::from(Tensor::from_slice(&[1, 2], &[0.0_f32; 2]).unwrap());
        assert!(refused("append", &[cache.clone(), float]).contains("float32"));
        assert!(refused("update", &[cache.clone(), rows([1])]).contains("1 rows"));
        let wrong = Any::from(Shape::new(&[1, 2]));
        assert!(refused("view", &[cache.clone(), wrong]).contains("of filled rows of [2, 2]"));
        let args = [cache.clone(), rows([1, 2, 3]), 2_i64.into()];
        assert!(refused("window_override", &args).contains("a window of 2"));
        let caches = Any::from(Array::new([cache.clone()]));
        assert!(refused("array_popn", &[caches, 3_i64.into()]).contains("3 of 2"));
        let args = [rows([1]), Shape::new(&[0, 2]).into(), 0_i64.into()];
        assert!(refused("create", &args).contains("no rows"));
        let args = [rows([1]), Shape::new(&[4, 2]).into(), 9_i64.into()];
        assert!(refused("create", &args).contains("9 of 4"));
        assert!(refused("append", &[rows([1]), rows([1])]).contains("reflex.AttentionKVCache"));
        assert_eq!(numbers(&cache), [1, 2]);
    }
}
