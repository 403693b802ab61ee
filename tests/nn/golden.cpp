// SPDX-License-Identifier: BSD-3-Clause
//
// The library against PyTorch, tensor by tensor: outputs and all gradients of the models in tests/golden/*.json.
#include <doctest/doctest.h>

#include <nn/golden.hpp>
#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/placement/visit.hpp>

using namespace normplace;
using namespace normplace::test;

namespace {

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

template <class T, class N = LayerNorm<T>>
void check_encoder(Golden& golden, const AnyPlacement& placement) {
    AnyEncoder<T, N> encoder(placement, encoder_options(golden.config));
    typename AnyEncoder<T, N>::Cache cache;
    typename AnyEncoder<T, N>::Gradients gradients;
    const auto parameters = golden_parameters<T>(encoder, gradients);
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
struct SmallModel {
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
        check_encoder<T>(golden, placement_named(golden.config.at("placement").get<std::string>()));
    }
}

TEST_CASE_TEMPLATE("placements that start otherwise and then run as another", T, float, double) {
    Golden none("none"), res_post_norm("res-post-norm"), pre_ln("pre-ln-gelu");
    check_encoder<T>(none, any_placement<TFixup>);
    check_encoder<T>(res_post_norm, any_placement<SwinV2>);
    check_encoder<T>(pre_ln, any_placement<ScaledPreLN>);
}

TEST_CASE_TEMPLATE("an encoder with RMSNorm", T, float, double) {
    Golden golden("pre-ln-rms-norm");
    REQUIRE(golden.config.at("norm") == "rms-norm");
    check_encoder<T, RMSNorm<T>>(golden, any_placement<PreLN>);
}

TEST_CASE_TEMPLATE("cross-attention to a memory of another length", T, float, double) {
    Golden golden("cross-attention");
    CrossAttention<T> attention({.width = golden.config.at("width"), .heads = golden.config.at("heads")});
    typename CrossAttention<T>::Cache cache;
    typename CrossAttention<T>::Gradients gradients;
    const auto parameters = golden_parameters<T>(attention, gradients);
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

    SmallModel<T> model{
        Embedding<T>({.vocabulary = vocabulary, .width = options.width, .positions = tokens.shape()[1]}),
        Encoder<PreLN, T>(options), Linear<T>(options.width, vocabulary, false)};
    typename Encoder<PreLN, T>::Cache cache;
    typename SmallModel<T>::Gradients gradients;
    const auto parameters = golden_parameters<T>(model, gradients);
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
