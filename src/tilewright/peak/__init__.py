"""Peak activation memory of one onnxruntime run on a CPU, predicted from the graph alone."""

from tilewright.peak.network import execution_order
from tilewright.peak.predict import Live, Moment, Prediction, predict_peak
from tilewright.peak.runtime import Runtime

__all__ = ["Live", "Moment", "Prediction", "Runtime", "execution_order", "predict_peak"]
