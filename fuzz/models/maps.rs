//! Models of one map.

use arbitrary::{Result, Unstructured};
use reflex::{Any, Engine, Map, Mode, ModelFormat, ModelSource, Tensor};
use reflex_onnx::proto::*;

use super::file::{encoded, int, ints, texts};

/// A model of DictVectorizer or CastMap gives what a look-up in the map gives, in every mode.
pub fn maps(engine: &Engine, u: &mut Unstructured<'_>) -> Result<()> {
    let is_text = u.arbitrary::<bool>()?;
    let mut entries: Vec<(i64, f32)> = vec![];
    for _ in 0..u.int_in_range(0..=6)? {
        let (key, value) = (u.int_in_range(0..=9)?, u.int_in_range(-40..=40)?);
        entries.retain(|(known, _)| *known != key);
        entries.push((key, value as f32 / 8.0));
    }
    let words: Vec<i64> =
        (0..u.int_in_range(1..=7)?).map(|_| u.int_in_range(0..=9)).collect::<Result<_>>()?;
    let value_of =
        |key: i64| entries.iter().find(|(known, _)| *known == key).map_or(0.0, |(_, v)| *v);
    let spelled: Vec<String> = words.iter().map(|word| format!("word {word}")).collect();
    let spelled: Vec<&str> = spelled.iter().map(String::as_str).collect();
    let (op, attribute, wanted): (_, _, Vec<f32>) = match (is_text, u.int_in_range(0..=2)?) {
        (true, _) => (
            "DictVectorizer",
            vec![texts("string_vocabulary", &spelled)],
            words.iter().map(|w| value_of(*w)).collect(),
        ),
        (_, 0) => (
            "DictVectorizer",
            vec![ints("int64_vocabulary", &words)],
            words.iter().map(|w| value_of(*w)).collect(),
        ),
        (_, 1) => {
            let form = AttributeProto {
                name: "map_form".into(),
                s: b"SPARSE".to_vec().into(),
                r#type: attribute_type::STRING,
                ..Default::default()
            };
            let most = words.len() as i64;
            ("CastMap", vec![form, int("max_map", most)], (0..most).map(value_of).collect())
        }
        _ => {
            let mut sorted = entries.clone();
            sorted.sort_by_key(|(key, _)| *key);
            ("CastMap", vec![], sorted.iter().map(|(_, v)| *v).collect())
        }
    };
    let key_type = if is_text { data_type::STRING } else { data_type::INT64 };
    let number = Some(TensorTypeProto {
        elem_type: data_type::FLOAT,
        shape: Some(TensorShapeProto::default()),
    });
    let value_type = Some(Box::new(TypeProto { tensor_type: number, ..Default::default() }));
    let map_type = Some(Box::new(MapTypeProto { key_type, value_type }));
    let input = vec![ValueInfoProto {
        name: "m".into(),
        r#type: Some(TypeProto { map_type, ..Default::default() }),
    }];
    let node = NodeProto {
        input: vec!["m".into()],
        output: vec!["y".into()],
        op_type: op.into(),
        domain: "ai.onnx.ml".into(),
        attribute,
        ..NodeProto::default()
    };
    let output = vec![ValueInfoProto { name: "y".into(), r#type: None }];
    let model = encoded(GraphProto {
        node: vec![node],
        name: "g".into(),
        input,
        output,
        ..Default::default()
    });
    let program =
        engine.load(ModelSource::bytes(ModelFormat::Onnx, model)).expect("a model of one operator");
    let key =
        |key: i64| if is_text { Any::from(format!("word {key}").as_str()) } else { Any::from(key) };
    let map =
        Map::new(entries.iter().map(|(k, v)| (key(*k), Any::from(f64::from(*v))))).expect("a map");
    for mode in Mode::ALL {
        let mut session = program.session(mode).expect("it opens");
        let y = session.call_values("main", &[map.clone().into()]).expect("it runs");
        let y = Tensor::try_from(y).and_then(|y| Ok((y.shape().to_vec(), y.to_vec::<f32>()?)));
        assert_eq!(
            y.expect("a tensor"),
            (vec![1, wanted.len() as i64], wanted.clone()),
            "{op}, {mode}"
        );
    }
    Ok(())
}
