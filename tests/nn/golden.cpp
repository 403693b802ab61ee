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
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

using namespace normplace;

namespace {

// Relative to the largest entry of the reference tensor.
template <class T>
constexpr double tolerance = sizeof(T) == sizeof(float) ? 1e-5 : 1e-10;

/// A tensor of a file, or of a model: its entries in row-major order.
struct Reference {
    std::vector<std::size_t> shape;
    std::vector<double> data;
};
template <class T>
struct View {
    std::vector<std::size_t> shape;
    T* data;
};
template <class Tensor>
auto view(Tensor& tensor) {
    return View<typename Tensor::value_type>{{tensor.shape().begin(), tensor.shape().end()}, tensor.data()};
}

/// A parameter of a model and its gradient. What follows is written for these, and not for the many types that models
/// and tensors have, because it would be compiled for each.
template <class T>
struct Parameter {
    std::string name;
    View<T> value, gradient;
};
template <class T, class Model, class Gradients>
std::vector<Parameter<T>> parameters_of(Model& model, Gradients& gradients) {
    zero_gradients(model, gradients);
    std::vector<Parameter<T>> parameters;
    for_each_parameter(
        [&](const std::string& name, auto& value, auto& gradient) {
            parameters.push_back({name, view(value), view(gradient)});
        },
        model, gradients);
    return parameters;
}

class Golden {
public:
    explicit Golden(const std::string& name) {
        std::ifstream file(std::filesystem::path(NORMPLACE_GOLDEN_DIR) / (name + ".json"));
        REQUIRE(file.good());
        const auto json = nlohmann::json::parse(file);
        config = json.at("config");
        for (const auto& [tensor, entry] : json.at("tensors").items())
            tensors_[tensor] = {entry.at("shape").get<std::vector<std::size_t>>(),
                                entry.at("data").get<std::vector<double>>()};
    }

    nlohmann::json config;

    template <class T>
    Activations<T> activations(const std::string& name) {
        const Reference& reference = read(name);
        REQUIRE(reference.shape.size() == 3);
        Activations<T> tensor({reference.shape[0], reference.shape[1], reference.shape[2]});
        fill(name, view(tensor));
        return tensor;
    }

    /// Every parameter from the file, which must have it in the shape that the model gave it.
    template <class T>
    void fill(const std::vector<Parameter<T>>& parameters) {
        for (const Parameter<T>& parameter : parameters) fill(parameter.name, parameter.value);
    }
    template <class T>
    void check_gradients(const std::vector<Parameter<T>>& parameters) {
        for (const Parameter<T>& parameter : parameters) check("grad." + parameter.name, parameter.gradient);
    }

    template <class T>
    void check(const std::string& name, const View<T>& actual) {
        const Reference& expected = read(name);
        REQUIRE_MESSAGE(actual.shape == expected.shape, name);
        const double allowed = tolerance<T> * scale(name);
        for (std::size_t i = 0; i < expected.data.size(); ++i) {
            const double ours = static_cast<double>(actual.data[i]), theirs = expected.data[i];
            if (std::abs(ours - theirs) <= allowed) continue;  // NaN is not close to anything
            FAIL_CHECK(name << "[" << i << "] is " << ours << ", PyTorch has " << theirs << ", allowed difference "
                            << allowed);
            break;
        }
    }

    /// No tensor of the file was overlooked: a parameter that the library does not know would be.
    void check_all_read() const {
        for (const auto& [name, reference] : tensors_) CHECK_MESSAGE(read_.count(name) == 1, name);
    }

private:
    const Reference& read(const std::string& name) {
        REQUIRE_MESSAGE(tensors_.count(name) == 1, name);
        read_.insert(name);
        return tensors_.at(name);
    }
    template <class T>
    void fill(const std::string& name, const View<T>& tensor) {
        const Reference& reference = read(name);
        REQUIRE_MESSAGE(tensor.shape == reference.shape, name);
        for (std::size_t i = 0; i < reference.data.size(); ++i) tensor.data[i] = static_cast<T>(reference.data[i]);
    }

    /// The largest entry. A key's bias moves all scores of a row alike and the softmax does not see it: its gradient is
    /// rounding about 0, and its size that of the key's weight's.
    double scale(std::string name) const {
        if (name.ends_with("key.bias")) name.replace(name.size() - 4, 4, "weight");
        double largest = 0.0;
        for (const double entry : tensors_.at(name).data) largest = std::max(largest, std::abs(entry));
        return largest;
    }

    std::map<std::string, Reference> tensors_;
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
void check_encoder(Golden& golden) {
    Encoder<P, T, N> encoder(encoder_options(golden.config));
    typename Encoder<P, T, N>::Cache cache;
    typename Encoder<P, T, N>::Gradients gradients;
    const auto parameters = parameters_of<T>(encoder, gradients);
    golden.fill(parameters);

    Activations<T> y, dx;
    encoder.forward(golden.activations<T>("x"), y, cache, table<KeyPaddingMask>(golden.config.at("key_padding")));
    golden.check("y", view(y));
    encoder.backward(golden.activations<T>("dy"), dx, cache, gradients);
    golden.check("dx", view(dx));
    golden.check_gradients(parameters);
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
        Golden golden(name);
        visit_placement(golden.config.at("placement").get<std::string>(),
                        [&](auto placement) { check_encoder<T, decltype(placement), LayerNorm<T>>(golden); });
    }
}

TEST_CASE_TEMPLATE("an encoder with RMSNorm", T, float, double) {
    Golden golden("pre-ln-rms-norm");
    REQUIRE(golden.config.at("norm") == "rms-norm");
    check_encoder<T, PreLN, RMSNorm<T>>(golden);
}

TEST_CASE_TEMPLATE("cross-attention to a memory of another length", T, float, double) {
    Golden golden("cross-attention");
    CrossAttention<T> attention({.width = golden.config.at("width"), .heads = golden.config.at("heads")});
    typename CrossAttention<T>::Cache cache;
    typename CrossAttention<T>::Gradients gradients;
    const auto parameters = parameters_of<T>(attention, gradients);
    golden.fill(parameters);

    Activations<T> y, dx, dmemory;
    attention.forward(golden.activations<T>("x"), y, cache, golden.activations<T>("memory"));
    golden.check("y", view(y));
    attention.backward(golden.activations<T>("dy"), dx, cache, gradients, dmemory);
    golden.check("dx", view(dx));
    golden.check("dmemory", view(dmemory));
    golden.check_gradients(parameters);
    golden.check_all_read();
}

TEST_CASE_TEMPLATE("a language model from tokens to loss", T, float, double) {
    Golden golden("language-model");
    const std::size_t vocabulary = golden.config.at("vocabulary");
    const auto tokens = table<Tokens>(golden.config.at("tokens")), targets = table<Tokens>(golden.config.at("targets"));
    const EncoderOptions options = encoder_options(golden.config);

    LanguageModel<T> model{
        Embedding<T>({.vocabulary = vocabulary, .width = options.width, .positions = tokens.shape()[1]}),
        Encoder<PreLN, T>(options), Linear<T>(options.width, vocabulary, false)};
    typename Encoder<PreLN, T>::Cache cache;
    typename LanguageModel<T>::Gradients gradients;
    const auto parameters = parameters_of<T>(model, gradients);
    golden.fill(parameters);

    Activations<T> x, y, logits, dlogits, dy, dx;
    model.embedding.forward(tokens, x);
    golden.check("x", view(x));
    model.encoder.forward(x, y, cache);
    model.readout.forward(y, logits);
    golden.check("logits", view(logits));
    const double loss = cross_entropy(logits, targets, dlogits);
    Vector<T> loss_tensor{static_cast<T>(loss)};
    golden.check("loss", view(loss_tensor));
    model.readout.backward(y, dlogits, dy, gradients.readout);
    model.encoder.backward(dy, dx, cache, gradients.encoder);
    model.embedding.backward(tokens, dx, gradients.embedding);
    golden.check_gradients(parameters);
    golden.check_all_read();
}
