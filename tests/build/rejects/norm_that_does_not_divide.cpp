// says: normplace: this placement weighs the stream against f(x) inside a norm, norm(alpha * x + f(x)), which says
#include <normplace/nn/dyt.hpp>
#include <normplace/nn/transformer.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

Transformer<PreLN, DeepNorm, float, DyT<float>> model({});
