// A training step that has run before allocates nothing and touches no fresh page: memory is got once and used again.
#include <doctest/doctest.h>

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/dyt.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/placement/catalogue.hpp>

#include "all_inner_norms.hpp"

using namespace normplace;

namespace {
std::atomic<long> allocations = 0;

void* counted(std::size_t size, std::size_t alignment) {
    ++allocations;
    void* memory = alignment ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                             : std::malloc(size ? size : 1);
    if (!memory) throw std::bad_alloc();
    return memory;
}
}  // namespace

void* operator new(std::size_t size) { return counted(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
    return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

long page_faults() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

/// Embedding, encoder, readout, loss, and back.
template <class P>
struct Step {
    static constexpr std::size_t batch = 4, sequence = 64, vocabulary = 96, width = 64;

    struct Gradients {
        typename Embedding<float>::Gradients embedding;
        typename Encoder<P, float>::Gradients encoder;
        typename Linear<float>::Gradients readout;
    };
    Embedding<float> embedding{{.vocabulary = vocabulary, .width = width, .positions = sequence}};
    Encoder<P, float> encoder;
    Linear<float> readout{width, vocabulary};
    typename Encoder<P, float>::Cache cache;
    Gradients gradients;
    Tokens tokens, targets;
    KeyPaddingMask mask;
    Activations<float> x, y, logits, dy, dx;

    explicit Step(Activation activation, const DropoutKey& dropout = {})
        : encoder({.layers = 2,
                   .width = width,
                   .heads = 4,
                   .feed_forward = 256,
                   .causal = true,
                   .activation = activation}) {
        RandomEngine random(1);
        encoder.initialize(random);
        cache.dropout = dropout;
        tokens.resize({batch, sequence});
        targets.resize({batch, sequence});
        mask.resize({batch, sequence});
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            tokens.data()[i] = static_cast<int>(i * 31 % vocabulary);
            targets.data()[i] = static_cast<int>(i * 17 % vocabulary);
            mask.data()[i] = i % 13 == 5;
        }
    }
    double operator()() {
        zero_gradients(embedding, gradients.embedding);
        zero_gradients(encoder, gradients.encoder);
        zero_gradients(readout, gradients.readout);
        embedding.forward(tokens, x);
        encoder.forward(x, y, cache, mask);
        readout.forward(y, logits);
        const double loss = cross_entropy(logits, targets, logits);
        readout.backward(y, logits, dy, gradients.readout);
        encoder.backward(dy, dx, cache, gradients.encoder);
        embedding.backward(tokens, dx, gradients.embedding);
        return loss;
    }
};

}  // namespace

TEST_CASE_TEMPLATE("no allocation and no fresh page in the steady state", P, PreLN, PostLN, PeriLN, DeepNorm) {
    const DropoutKey dropout{.seed = 1, .rate = 0.1, .attention_rate = 0.1, .activation_rate = 0.1};
    for (const auto& [activation, key] :
         {std::pair{relu, DropoutKey{}}, std::pair{gelu, DropoutKey{}}, std::pair{relu, dropout}}) {
        Step<P> step(activation, key);
        const double first = step();
        step();
        CHECK(allocations > 0);     // they are counted
        long fewest_faults = 1000;  // the machine may have its own reasons for one at times
        for (int i = 0; i < 10; ++i) {
            const long allocations_before = allocations, faults_before = page_faults();
            const double loss = step();
            const long faults = page_faults() - faults_before, allocated = allocations - allocations_before;
            fewest_faults = std::min(fewest_faults, faults);
            CHECK(allocated == 0);
            CHECK(loss == first);  // bit for bit, from run to run
        }
        CHECK(fewest_faults == 0);
    }
}

TEST_CASE_TEMPLATE("nor in a norm, or with norms inside the sublayer", S, ScaleNorm<float>, CentreNorm<float>,
                   UnitOffsetLayerNorm<float>, DyT<float>, MultiHeadAttention<float>, FeedForward<float>) {
    typename S::Options options{.width = 32};
    if constexpr (requires { options.norms; }) options.norms = test::all_inner_norms;
    if constexpr (std::is_same_v<S, FeedForward<float>>) options.feed_forward = 64;
    const S sublayer(options);
    Activations<float> x, y, dx;
    x.resize({2, 16, 32});
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i % 31);
    typename S::Cache cache;
    typename S::Gradients gradients;
    for (int i = 0; i < 4; ++i) {
        const long allocations_before = allocations;
        zero_gradients(sublayer, gradients);
        sublayer.forward(x, y, cache);
        sublayer.backward(y, dx, cache, gradients);
        const long allocated = allocations - allocations_before;
        if (i == 0) CHECK(allocated > 0);
        if (i > 1) CHECK(allocated == 0);
    }
}
