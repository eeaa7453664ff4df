//! The choice of machine code for a device.

use reflex_runtime::device::Image;

/// The compute capability that an architecture such as `sm_90` or `sm_90a` names, and whether code for
/// it runs on no other.
pub(crate) fn capability(arch: &str) -> Option<(u32, u32, bool)> {
    let digits = arch.strip_prefix("sm_")?;
    let (digits, exact) = match digits.strip_suffix('a') {
        Some(digits) => (digits, true),
        None => (digits, false),
    };
    let number: u32 = digits.parse().ok()?;
    Some((number / 10, number % 10, exact))
}

/// The image that a device of this compute capability runs: of its generation, and for no newer device of
/// that; the newest of these, and the one for it alone before the others.
pub(crate) fn choose(images: &[Image], (major, minor): (u32, u32)) -> Option<&Image> {
    let fits = |image: &&Image| {
        capability(&image.arch).is_some_and(|(of, from, exact)| {
            of == major && if exact { from == minor } else { from <= minor }
        })
    };
    images.iter().filter(fits).max_by_key(|image| capability(&image.arch))
}

/// Whether bytes are a cubin, an ELF file for CUDA, whose headers and sections lie within them: the driver is
/// not told how many there are.
pub(crate) fn is_cubin(bytes: &[u8]) -> bool {
    const HEAD: &[u8] = b"\x7fELF\x02\x01";
    const MACHINE: u16 = 190;
    let tables = || {
        let machine = u16::from_le_bytes(field(bytes, 0x12)?);
        let segments = u64::from_le_bytes(field(bytes, 0x20)?);
        let sections = u64::from_le_bytes(field(bytes, 0x28)?);
        let [segment_size, segment_count, section_size, section_count] =
            [0x36, 0x38, 0x3a, 0x3c].map(|at| field(bytes, at).map(u16::from_le_bytes));
        within(bytes, segments, u64::from(segment_size?) * u64::from(segment_count?))?;
        within(bytes, sections, u64::from(section_size?) * u64::from(section_count?))?;
        let mut all = (0..section_count?).map(|n| {
            let at = usize::try_from(sections).ok()? + usize::from(section_size?) * usize::from(n);
            section_is_within(bytes, at)
        });
        Some(machine == MACHINE && section_count? > 0 && all.all(|found| found.is_some()))
    };
    bytes.starts_with(HEAD) && tables().unwrap_or(false)
}

/// Whether bytes are a fatbin that lies within them: a head with its size, and that of what follows.
pub(crate) fn is_fatbin(bytes: &[u8]) -> bool {
    const MAGIC: u32 = 0xBA55_ED50;
    let whole = || {
        let head = u16::from_le_bytes(field(bytes, 6)?);
        let body = u64::from_le_bytes(field(bytes, 8)?);
        let magic = u32::from_le_bytes(field(bytes, 0)?);
        within(bytes, head.into(), body)?;
        Some(magic == MAGIC && head >= 16)
    };
    whole().unwrap_or(false)
}

fn section_is_within(bytes: &[u8], at: usize) -> Option<()> {
    /// A section without bytes in the file.
    const NO_BITS: u32 = 8;
    let kind = u32::from_le_bytes(field(bytes, at + 4)?);
    let start = u64::from_le_bytes(field(bytes, at + 0x18)?);
    let size = u64::from_le_bytes(field(bytes, at + 0x20)?);
    if kind == NO_BITS { Some(()) } else { within(bytes, start, size) }
}

fn within(bytes: &[u8], start: u64, size: u64) -> Option<()> {
    (start.checked_add(size)? <= bytes.len() as u64).then_some(())
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a header, and one section of 4 bytes.
    fn elf() -> Vec<u8> {
        let mut bytes = vec![0; 64 + 64 + 4];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[0x12] = 190;
        bytes[0x28] = 64;
        bytes[0x3a] = 64;
        bytes[0x3c] = 1;
        bytes[64 + 4] = 1;
        bytes[64 + 0x18] = 128;
        bytes[64 + 0x20] = 4;
        bytes
    }

    #[test]
    fn a_cubin_is_whole() {
        let whole = elf();
        assert!(is_cubin(&whole));
        assert!((0..whole.len()).all(|length| !is_cubin(&whole[..length])), "a part of it");
        // Not ELF, another machine, no section, tables and sections that lie beyond its end.
        for (at, byte) in [(0, 1), (0x12, 62), (0x3c, 0), (0x28, 65), (0x3d, 1), (0x2f, 255)] {
            let mut damaged = elf();
            damaged[at] = byte;
            assert!(!is_cubin(&damaged), "{at}");
        }
        for at in [64 + 0x18, 64 + 0x1f, 64 + 0x20, 64 + 0x27] {
            let mut damaged = elf();
            damaged[at] = 255;
            assert!(!is_cubin(&damaged), "{at}");
        }
    }

    #[test]
    fn a_fatbin_is_whole() {
        let mut whole = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        whole.extend(b"code");
        assert!(is_fatbin(&whole));
        assert!((0..whole.len()).all(|length| !is_fatbin(&whole[..length])), "a part of it");
        for (at, byte) in [(0, 1), (6, 15), (6, 17), (8, 5), (15, 255)] {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            assert!(!is_fatbin(&damaged), "{at}");
        }
    }

    fn chosen(archs: &[&str], device: (u32, u32)) -> Option<String> {
        let image = |arch: &&str| Image { arch: (*arch).to_owned(), bytes: vec![] };
        let images: Vec<Image> = archs.iter().map(image).collect();
        choose(&images, device).map(|image| image.arch.clone())
    }

    #[test]
    fn an_image_is_of_the_devices_generation() {
        let both = ["sm_80", "sm_90"];
        for (device, expected) in [
            ((7, 5), None),
            ((8, 0), Some("sm_80")),
            ((8, 6), Some("sm_80")),
            ((8, 9), Some("sm_80")),
            ((9, 0), Some("sm_90")),
            ((10, 0), None),
            ((12, 0), None),
        ] {
            assert_eq!(chosen(&both, device).as_deref(), expected, "{device:?}");
        }
    }

    #[test]
    fn the_newest_that_fits_is_chosen() {
        let several = ["sm_89", "sm_80", "sm_86", "sm_90a", "sm_90"];
        for (device, expected) in [
            ((8, 0), "sm_80"),
            ((8, 6), "sm_86"),
            ((8, 7), "sm_86"),
            ((8, 9), "sm_89"),
            ((9, 0), "sm_90a"),
        ] {
            assert_eq!(chosen(&several, device).as_deref(), Some(expected), "{device:?}");
        }
        assert_eq!(chosen(&["sm_86"], (8, 0)), None, "for a newer device");
        assert_eq!(chosen(&["sm_90a"], (9, 1)), None, "for 9.0 alone");
        assert_eq!(chosen(&["sm_100"], (10, 3)).as_deref(), Some("sm_100"));
        assert_eq!(chosen(&["compute_90", "sm_x", ""], (9, 0)), None);
        assert_eq!(chosen(&[], (9, 0)), None);
    }
}
