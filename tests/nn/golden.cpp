// SPDX-License-Identifier: BSD-3-Clause
//
// The library against PyTorch, tensor by tensor: outputs and all gradients of the models in tests/golden/*.json, which
// tests/golden/generate.py writes. Its parameters are read by their names, so the names are tested as well.
#include <doctest/doctest.h>

#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/placement/visit.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

using namespace normplace;

namespace {

// Relative to the largest entry of the reference tensor.
template <class T>
constexpr double tolerance = sizeof(T) == sizeof(float) ? 1e-5 : 1e-10;

template <class T>
class Golden {
public:
    explicit Golden(const std::string& name) {
        std::ifstream file(std::filesystem::path(NORMPLACE_GOLDEN_DIR) / (name + ".json"));
        const auto json = nlohmann::json::parse(file);
        config = json.at("config");
        tensors_ = json.at("tensors");
    }

    nlohmann::json config;

    template <class Tensor>
    void read(const std::string& name, Tensor& tensor) {
        read_.insert(name);
        const auto& entry = tensors_.at(name);
        typename Tensor::shape_type shape{};
        REQUIRE(entry.at("shape").size() == shape.size());
        std::copy(entry.at("shape").begin(), entry.at("shape").end(), shape.begin());
        tensor.resize(shape);
        std::transform(entry.at("data").begin(), entry.at("data").end(), tensor.data(),
                       [](const auto& value) { return static_cast<T>(value.template get<double>()); });
    }
    Activations<T> activations(const std::string& name) {
        Activations<T> tensor;
        read(name, tensor);
        return tensor;
    }

    /// Every parameter of the file, and none that the file has not, in the shape that the layer gave it.
    template <class Layer>
    void read_parameters(Layer& layer) {
        for_each_parameter(
            [&](const std::string& name, auto& value) {
                const auto shape = detail::shape_of(value);
                read(name, value);
                CAPTURE(name);
                CHECK(detail::shape_of(value) == shape);
            },
            layer);
    }

    template <class Tensor>
    void check(const std::string& name, const Tensor& actual) {
        Tensor expected;
        read(name, expected);
        REQUIRE(detail::shape_of(actual) == detail::shape_of(expected));
        const double allowed = tolerance<T> * scale(name);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const double ours = static_cast<double>(actual.data()[i]), theirs = value(name, i);
            if (!(std::abs(ours - theirs) <= allowed)) {  // NaN is not close to anything
                FAIL_CHECK(name << "[" << i << "] is " << ours << ", PyTorch has " << theirs << ", allowed difference "
                                << allowed);
                break;
            }
        }
    }
    template <class Layer, class Gradients>
    void check_gradients(Layer& layer, const Gradients& gradients) {
        for_each_parameter(
            [&](const std::string& name, const auto&, const auto& gradient) { check("grad." + name, gradient); }, layer,
            gradients);
    }

    /// No tensor of the file was overlooked: a parameter that the library does not know would be.
    void check_all_read() const {
        for (const auto& [name, entry] : tensors_.items()) {
            CAPTURE(name);
            CHECK(read_.count(name) == 1);
        }
    }

private:
    double value(const std::string& name, std::size_t i) const { return tensors_.at(name).at("data")[i]; }

    /// The largest entry. A key's bias moves all scores of a row alike and the softmax does not see it: its gradient is
    /// rounding about 0, and its size that of the key's weight's.
    double scale(std::string name) const {
        if (name.ends_with("key.bias")) name.replace(name.size() - 4, 4, "weight");
        double largest = 0.0;
        for (const double entry : tensors_.at(name).at("data")) largest = std::max(largest, std::abs(entry));
        return largest;
    }

    nlohmann::json tensors_;
    std::set<std::string> read_;
};

EncoderOptions encoder_options(const nlohmann::json& config) {
    EncoderOptions options;
    options.layers = config.at("layers");
    options.width = config.at("width");
    options.heads = config.at("heads");
    options.feed_forward = config.at("feed_forward");
    options.causal = config.at("causal");
    options.epsilon = config.at("epsilon");
    options.activation = config.at("activation") == "gelu" ? gelu : relu;
    return options;
}

/// (B, S) from nested lists.
template <class Table>
Table table(const nlohmann::json& rows) {
    Table result;
    if (rows.is_null()) return result;
    result.resize({rows.size(), rows[0].size()});
    auto* entry = result.data();
    for (const auto& row : rows)
        for (const auto& value : row) *entry++ = value;
    return result;
}

template <class T, class P, class N>
void check_encoder(Golden<T>& golden) {
    Encoder<P, T, N> encoder(encoder_options(golden.config));
    golden.read_parameters(encoder);
    typename Encoder<P, T, N>::Cache cache;
    typename Encoder<P, T, N>::Gradients gradients;
    zero_gradients(encoder, gradients);

    Activations<T> y, dx;
    encoder.forward(golden.activations("x"), y, cache, table<KeyPaddingMask>(golden.config.at("key_padding")));
    golden.check("y", y);
    encoder.backward(golden.activations("dy"), dx, cache, gradients);
    golden.check("dx", dx);
    golden.check_gradients(encoder, gradients);
    golden.check_all_read();
}

template <class T>
struct LanguageModel {
    Embedding<T> embedding;
    Encoder<PreLN, T> encoder;
    Linear<T> readout;

    struct Gradients {
        typename Embedding<T>::Gradients embedding;
        typename Encoder<PreLN, T>::Gradients encoder;
        typename Linear<T>::Gradients readout;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("", self.embedding), named("", self.encoder), named("readout", self.readout));
        }
    };
};

}  // namespace

TEST_CASE_TEMPLATE("encoders of every placement", T, float, double) {
    for (const std::string name :
         {"pre-ln-relu", "pre-ln-gelu", "pre-ln-causal", "pre-ln-padding", "post-ln-relu", "post-ln-gelu",
          "post-ln-causal", "post-ln-padding", "none", "res-post-norm", "peri-ln", "deep-norm", "ln-scaling"}) {
        CAPTURE(name);
        Golden<T> golden(name);
        visit_placement(golden.config.at("placement").template get<std::string>(),
                        [&](auto placement) { check_encoder<T, decltype(placement), LayerNorm<T>>(golden); });
    }
}

TEST_CASE_TEMPLATE("an encoder with RMSNorm", T, float, double) {
    Golden<T> golden("pre-ln-rms-norm");
    REQUIRE(golden.config.at("norm") == "rms-norm");
    check_encoder<T, PreLN, RMSNorm<T>>(golden);
}

TEST_CASE_TEMPLATE("cross-attention to a memory of another length", T, float, double) {
    Golden<T> golden("cross-attention");
    CrossAttention<T> attention({.width = golden.config.at("width"), .heads = golden.config.at("heads")});
    golden.read_parameters(attention);
    typename CrossAttention<T>::Cache cache;
    typename CrossAttention<T>::Gradients gradients;
    zero_gradients(attention, gradients);

    Activations<T> y, dx, dmemory;
    attention.forward(golden.activations("x"), y, cache, golden.activations("memory"));
    golden.check("y", y);
    attention.backward(golden.activations("dy"), dx, cache, gradients, dmemory);
    golden.check("dx", dx);
    golden.check("dmemory", dmemory);
    golden.check_gradients(attention, gradients);
    golden.check_all_read();
}

TEST_CASE_TEMPLATE("a language model from tokens to loss", T, float, double) {
    Golden<T> golden("language-model");
    const std::size_t vocabulary = golden.config.at("vocabulary");
    const auto tokens = table<Tokens>(golden.config.at("tokens")), targets = table<Tokens>(golden.config.at("targets"));
    const EncoderOptions options = encoder_options(golden.config);

    LanguageModel<T> model{
        Embedding<T>({.vocabulary = vocabulary, .width = options.width, .positions = tokens.shape()[1]}),
        Encoder<PreLN, T>(options), Linear<T>(options.width, vocabulary, false)};
    golden.read_parameters(model);
    typename Encoder<PreLN, T>::Cache cache;
    typename LanguageModel<T>::Gradients gradients;
    zero_gradients(model, gradients);

    Activations<T> x, y, logits, dlogits, dy, dx;
    model.embedding.forward(tokens, x);
    golden.check("x", x);
    model.encoder.forward(x, y, cache);
    model.readout.forward(y, logits);
    golden.check("logits", logits);
    const double loss = cross_entropy(logits, targets, dlogits);
    golden.check("loss", Vector<T>{static_cast<T>(loss)});
    model.readout.backward(y, dlogits, dy, gradients.readout);
    model.encoder.backward(dy, dx, cache, gradients.encoder);
    model.embedding.backward(tokens, dx, gradients.embedding);
    golden.check_gradients(model, gradients);
    golden.check_all_read();
}
