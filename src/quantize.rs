//! Quantizing models: calibration, and the error of each layer.
//!
//! [`Quantizer`] turns a float32 ONNX model into one of 8-bit integers or 4-bit weights, a standard ONNX
//! file. Feeds are runs of the model: they calibrate activations and say how far each quantized layer is
//! from the float32 one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reflex_onnx::quantize::{FloatModel, Ranges, decibels};
use serde::Serialize;
use serde_json::json;

pub use reflex_onnx::quantize::{KeptNode, Layer, Method, OPERATORS, QuantizeOptions};

use crate::array::{Array, Feed};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::model_source::{ModelFormat, ModelSource};
use crate::options::Mode;
use crate::session::Session;

/// A model to quantize.
pub struct Quantizer<'e> {
    engine: &'e Engine,
    path: PathBuf,
    model: FloatModel,
}

/// A quantized model, and what became of each layer.
pub struct Quantized {
    /// The ONNX file.
    pub bytes: Vec<u8>,
    /// Quantized layers, in the order of the graph.
    pub layers: Vec<LayerReport>,
    /// Nodes with products that stay as they are.
    pub kept: Vec<KeptNode>,
    /// The model's results, where feeds were given.
    pub outputs: Vec<ValueError>,
}

/// A quantized layer.
#[derive(Clone, Debug, Serialize)]
pub struct LayerReport {
    /// Name of the node, or of its result if it has none.
    pub node: String,
    /// Operator.
    pub operator: String,
    /// Name of the weights.
    pub weight: String,
    /// Number of weights.
    pub elements: usize,
    /// Signal to quantization noise of the weights in decibels; none if nothing was rounded.
    pub weight_sqnr_db: Option<f64>,
    /// The layer's result, where feeds were given. It has the error of the layers before it too.
    pub output: Option<ValueError>,
}

/// The distance of a value in the quantized model from that in the float32 model, over all feeds.
#[derive(Clone, Debug, Serialize)]
pub struct ValueError {
    /// Name of the value.
    pub name: String,
    /// Signal to quantization noise in decibels; none if the values are equal.
    pub sqnr_db: Option<f64>,
    /// Largest absolute difference.
    pub max_abs: f64,
}

impl Quantized {
    /// Returns the report as JSON, as `reflex quantize --json` and Python have it: `layers`, nodes that were
    /// `kept`, and `outputs`.
    ///
    /// ```no_run
    /// # use reflex::quantize::{Method, Quantizer, QuantizeOptions};
    /// let engine = reflex::Engine::new()?;
    /// let options = QuantizeOptions::new(Method::Weights4(32));
    /// let quantized = Quantizer::open(&engine, "model.onnx")?.quantize(options, &[])?;
    /// println!("{}", quantized.report()["layers"][0]["weight_sqnr_db"]);
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn report(&self) -> serde_json::Value {
        let kept =
            |k: &KeptNode| json!({ "node": k.node, "operator": k.operator, "reason": k.reason });
        json!({
            "bytes": self.bytes.len(),
            "layers": self.layers,
            "kept": self.kept.iter().map(kept).collect::<Vec<_>>(),
            "outputs": self.outputs,
        })
    }
}

/// Sums of squares over all feeds.
#[derive(Default)]
struct Noise {
    signal: f64,
    noise: f64,
    max_abs: f64,
}

impl<'e> Quantizer<'e> {
    /// Reads a model. `engine` runs it on feeds.
    ///
    /// ```no_run
    /// use reflex::quantize::{Method, Quantizer, QuantizeOptions};
    ///
    /// let engine = reflex::Engine::new()?;
    /// let quantizer = Quantizer::open(&engine, "model.onnx")?;
    /// let quantized = quantizer.quantize(QuantizeOptions::new(Method::Dynamic), &[])?;
    /// std::fs::write("model.int8.onnx", quantized.bytes)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(engine: &'e Engine, path: impl AsRef<Path>) -> Result<Quantizer<'e>> {
        let path = path.as_ref().to_path_buf();
        let model = FloatModel::open(&path)?;
        Ok(Quantizer { engine, path, model })
    }

    /// Quantizes. The feeds are measured on, and [`Method::Static`] without ranges is calibrated by them:
    /// the least and the greatest element of each activation over all feeds are its range.
    ///
    /// ```no_run
    /// # use reflex::quantize::{Method, Quantizer, QuantizeOptions};
    /// # use reflex::{Engine, numpy};
    /// let engine = Engine::new()?;
    /// let runs = numpy::read_cases("runs.npz".as_ref())?;
    /// let feeds: Vec<_> = runs.into_iter().map(|run| run.inputs).collect();
    /// let options = QuantizeOptions::new(Method::Static(Default::default()));
    /// let quantized = Quantizer::open(&engine, "model.onnx")?.quantize(options, &feeds)?;
    /// for layer in &quantized.layers {
    ///     println!("{}: {:?}", layer.node, layer.output);
    /// }
    /// # Ok::<(), reflex::Error>(())
    /// ```
    pub fn quantize(&self, mut options: QuantizeOptions, feeds: &[Feed]) -> Result<Quantized> {
        if options.method == Method::Static(Ranges::new()) {
            if feeds.is_empty() {
                return Err(Error::input(
                    "static quantization needs inputs to calibrate with, or ranges",
                ));
            }
            let values = self.model.values_to_calibrate(&options)?;
            options.method = Method::Static(self.calibrate(&values, feeds)?);
        }
        let model = self.model.quantize(&options).map_err(|e| self.named(e.into()))?;
        let mut layers: Vec<LayerReport> = model.layers.iter().map(LayerReport::of).collect();
        let mut outputs = vec![];
        if !feeds.is_empty() {
            let names: Vec<String> = model.layers.iter().map(|l| l.output.clone()).collect();
            let mut errors = self.errors(&model.bytes, &names, feeds)?;
            for (layer, name) in layers.iter_mut().zip(&names) {
                layer.output = errors.get(name).map(|noise| noise.of_value(name));
            }
            for output in self.engine.load(&self.path)?.signature("main")?.outputs {
                outputs.extend(errors.remove(&output.name).map(|n| n.of_value(&output.name)));
            }
        }
        Ok(Quantized { bytes: model.bytes, layers, kept: model.kept, outputs })
    }

    fn named(&self, error: Error) -> Error {
        error.at(self.path.display())
    }

    /// The least and the greatest element of float32 values over all feeds.
    fn calibrate(&self, names: &[String], feeds: &[Feed]) -> Result<Ranges> {
        let (bytes, named) = (self.model.with_outputs(names)?, |e| self.named(e));
        let mut runs = Runs::of(self.engine, self.with_external_data(bytes)).map_err(named)?;
        let mut ranges = Ranges::new();
        for feed in feeds {
            let mut values = runs.values(feed)?;
            // Inputs of the model are values too.
            values.extend(feed.iter().map(|(name, array)| (name.clone(), array.clone())));
            for name in names {
                let Some(array) = values.get(name) else { continue };
                let range = ranges.entry(name.clone()).or_insert((0f32, 0f32));
                for value in array.to_f64() {
                    let value = value as f32;
                    // A value that is not a number stays in the range, which is refused.
                    range.0 = if value.is_nan() { value } else { range.0.min(value) };
                    range.1 = range.1.max(value);
                }
            }
        }
        Ok(ranges)
    }

    /// The noise of values with these names, and of the model's results.
    fn errors(
        &self,
        quantized: &[u8],
        names: &[String],
        feeds: &[Feed],
    ) -> Result<BTreeMap<String, Noise>> {
        let named = |e| self.named(e);
        let float = self.with_external_data(self.model.with_outputs(names)?);
        let mut float = Runs::of(self.engine, float).map_err(named)?;
        let model = FloatModel::of_bytes(quantized.to_vec())?.with_outputs(names)?;
        let quantized = ModelSource::bytes(ModelFormat::Onnx, model);
        let mut quantized = Runs::of(self.engine, quantized).map_err(named)?;
        let mut errors: BTreeMap<String, Noise> = BTreeMap::new();
        for feed in feeds {
            let actual = quantized.values(feed)?;
            for (name, expected) in float.values(feed)? {
                if let Some(actual) = actual.get(&name) {
                    errors.entry(name).or_default().add(&expected, actual);
                }
            }
        }
        Ok(errors)
    }

    fn with_external_data(&self, bytes: Vec<u8>) -> ModelSource {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        ModelSource::bytes(ModelFormat::Onnx, bytes).external_data(folder)
    }
}

/// A program that is run on feeds.
struct Runs {
    session: Session,
    program: crate::program::Program,
}

impl Runs {
    fn of(engine: &Engine, model: ModelSource) -> Result<Runs> {
        let program = engine.load(model)?;
        Ok(Runs { session: program.session(Mode::Compiled)?, program })
    }

    fn values(&mut self, feed: &Feed) -> Result<BTreeMap<String, Array>> {
        let prepared = self.program.prepare("main", feed)?;
        Ok(self.session.call(&prepared)?.arrays()?.into_iter().collect())
    }
}

impl LayerReport {
    fn of(layer: &Layer) -> LayerReport {
        LayerReport {
            node: layer.node.clone(),
            operator: layer.operator.clone(),
            weight: layer.weight.clone(),
            elements: layer.elements,
            weight_sqnr_db: finite(layer.weight_sqnr_db),
            output: None,
        }
    }
}

impl Noise {
    fn add(&mut self, expected: &Array, actual: &Array) {
        for (expected, actual) in expected.to_f64().into_iter().zip(actual.to_f64()) {
            self.signal += expected * expected;
            self.noise += (expected - actual).powi(2);
            self.max_abs = self.max_abs.max((expected - actual).abs());
        }
    }

    fn of_value(&self, name: &str) -> ValueError {
        let sqnr_db = finite(decibels(self.signal, self.noise));
        ValueError { name: name.to_owned(), sqnr_db, max_abs: self.max_abs }
    }
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
