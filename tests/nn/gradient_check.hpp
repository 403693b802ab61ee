// SPDX-License-Identifier: BSD-3-Clause
//
// The one gradient check that every layer's test uses: each gradient that `backward` gives, against central differences
// of the loss in double, for the layer's input and for every parameter.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <normplace/nn/parameters.hpp>

namespace normplace::test {

/// Central differences with step h err by about h^2 f''' and by epsilon |f| / h: 1e-10 or so at h = 1e-5. What is left
/// of the tolerance is for losses with a large third derivative.
inline constexpr double gradient_tolerance = 1e-6;
inline constexpr double step = 1e-5;

template <class Tensor>
void fill_random(Tensor& tensor, std::uint64_t seed, double scale = 1.0, double mean = 0.0) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> gaussian(mean, scale);
    for (auto& entry : tensor.storage())
        entry = static_cast<std::remove_reference_t<decltype(entry)>>(gaussian(random));
}

inline Activations<double> random_activations(std::size_t b, std::size_t s, std::size_t d, std::uint64_t seed) {
    Activations<double> x;
    x.resize({b, s, d});
    fill_random(x, seed);
    return x;
}

/// Random gains around 1, biases and weights around 0: nothing may be right only for the start values.
template <class Layer>
void randomize_parameters(Layer& layer, std::uint64_t seed) {
    for_each_parameter(
        [&](const std::string& name, auto& value) {
            const bool gain = name.size() >= 4 && name.compare(name.size() - 4, 4, "gain") == 0;
            fill_random(value, ++seed, gain ? 0.3 : 0.5, gain ? 1.0 : 0.0);
        },
        layer);
}

/// One tensor and the gradient claimed for it.
struct Checked {
    std::string name;
    double* value;
    const double* gradient;
    std::size_t size;
};

template <class Tensor>
Checked checked(std::string name, Tensor& value, const Tensor& gradient) {
    REQUIRE(detail::shape_of(value) == detail::shape_of(gradient));
    return {std::move(name), value.data(), gradient.data(), value.size()};
}
template <class Layer, class Gradients>
void add_parameters(std::vector<Checked>& all, Layer& layer, Gradients& gradients) {
    for_each_parameter(
        [&](const std::string& name, auto& value, auto& gradient) { all.push_back(checked(name, value, gradient)); },
        layer, gradients);
}

/// ||numeric - claimed|| / ||claimed|| for every tensor, with a floor for gradients that are exactly 0 (a key's bias).
inline void check_gradients(const std::vector<Checked>& all, const std::function<double()>& loss) {
    double largest = 1e-3;  // where every gradient is 0, what is left is rounding, and less than 1e-12
    for (const Checked& tensor : all)
        for (std::size_t i = 0; i < tensor.size; ++i) largest = std::max(largest, std::abs(tensor.gradient[i]));
    for (const Checked& tensor : all) {
        double error = 0.0, norm = 0.0;
        for (std::size_t i = 0; i < tensor.size; ++i) {
            const double before = tensor.value[i];
            tensor.value[i] = before + step;
            const double above = loss();
            tensor.value[i] = before - step;
            const double below = loss();
            tensor.value[i] = before;
            const double numeric = (above - below) / (2.0 * step);
            error += (numeric - tensor.gradient[i]) * (numeric - tensor.gradient[i]);
            norm += tensor.gradient[i] * tensor.gradient[i];
        }
        INFO("gradient of ", tensor.name);
        CHECK(std::sqrt(error) < gradient_tolerance * std::max(std::sqrt(norm), 1e-3 * largest));
    }
}

inline double dot(const Activations<double>& a, const Activations<double>& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a.data()[i] * b.data()[i];
    return sum;
}

/// Checks dx and every parameter's gradient of `layer` under the loss <y, w> with random w. `context...` is what
/// forward and backward take besides; `also` adds tensors whose gradients the context holds.
template <class Layer, class... Context>
void check_layer(const Layer& original, std::size_t b, std::size_t s, std::uint64_t seed, const Context&... context) {
    Layer layer = original;
    randomize_parameters(layer, seed);
    Activations<double> x = random_activations(b, s, layer.width(), seed + 1000), y, dx;
    typename Layer::Cache cache;
    typename Layer::Gradients gradients;
    layer.forward(x, y, cache, context...);
    const Activations<double> dy = random_activations(b, s, layer.width(), seed + 2000);
    zero_gradients(layer, gradients);
    layer.backward(dy, dx, cache, gradients);
    std::vector<Checked> all{checked("x", x, dx)};
    add_parameters(all, layer, gradients);
    typename Layer::Cache scratch;
    Activations<double> result;
    check_gradients(all, [&] {
        layer.forward(x, result, scratch, context...);
        return dot(result, dy);
    });

    // Gradients are added to, dx is set: a second backward doubles the first and leaves the second.
    const Activations<double> dx_before = dx;
    typename Layer::Gradients once = gradients;
    layer.forward(x, y, cache, context...);
    layer.backward(dy, dx, cache, gradients);
    for (std::size_t i = 0; i < dx.size(); ++i) REQUIRE(dx.data()[i] == dx_before.data()[i]);
    for_each_parameter(
        [&](const std::string& name, auto&, auto& twice, auto& first) {
            INFO("gradient of ", name);
            for (std::size_t i = 0; i < first.size(); ++i)
                REQUIRE(twice.data()[i] == doctest::Approx(2.0 * first.data()[i]).epsilon(1e-12));
        },
        layer, gradients, once);
}

/// A second backward with the same cache is refused, as is one with the cache of `other`, a layer of other sizes.
template <class Layer>
void check_cache(const Layer& layer, const Layer& other, const std::string& name, const char* refusal_of_other) {
    typename Layer::Cache cache;
    typename Layer::Gradients gradients;
    zero_gradients(layer, gradients);
    const Activations<double> x = random_activations(1, 2, layer.width(), 1);
    Activations<double> y, dx;
    layer.forward(x, y, cache);
    layer.backward(x, dx, cache, gradients);
    const std::string used_up = name + ": backward needs a cache that a forward has filled and no backward has used up";
    CHECK_THROWS_WITH(layer.backward(x, dx, cache, gradients), used_up.c_str());
    other.forward(x, y, cache);
    CHECK_THROWS_WITH(layer.backward(x, dx, cache, gradients), refusal_of_other);
}

}  // namespace normplace::test
