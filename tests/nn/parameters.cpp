// Parameters walked by name, side by side with their gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>

#include <normplace/nn/encoder.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

namespace {
std::size_t allocations = 0;

template <class Body>
std::size_t allocations_in(Body&& body) {
    const std::size_t before = allocations;
    body();
    return allocations - before;
}
}  // namespace

// Not inlined, or g++ warns that new's memory is freed.
[[gnu::noinline]] void* operator new(std::size_t size) {
    ++allocations;
    if (void* memory = std::malloc(size ? size : 1)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("an encoder's parameters have the names that PyTorch's users know") {
    Encoder<PreLN, float> encoder({.layers = 2, .width = 4, .heads = 2, .feed_forward = 8});
    std::map<std::string, std::vector<std::size_t>> shapes;
    for_each_parameter(
        [&](const std::string& name, auto& value) {
            shapes[name] = std::vector<std::size_t>(value.shape().begin(), value.shape().end());
        },
        encoder);
    CHECK(shapes.size() == 2 * (8 + 2 + 4 + 2) + 2);
    using Shape = std::vector<std::size_t>;
    CHECK(shapes.at("layers.1.attention.query.weight") == Shape{4, 4});
    CHECK(shapes.at("layers.0.attention.out.bias") == Shape{4});
    CHECK(shapes.at("layers.0.attention.norm.gain") == Shape{4});
    CHECK(shapes.at("layers.0.feed_forward.linear1.weight") == Shape{8, 4});
    CHECK(shapes.at("layers.1.feed_forward.linear2.weight") == Shape{4, 8});
    CHECK(shapes.at("final_norm.bias") == Shape{4});
    CHECK(parameter_count(encoder) == 2 * (4 * (16 + 4) + 32 + 8 + 32 + 4 + 4 * 4) + 8);
}

TEST_CASE("absent parameters are passed over") {
    Encoder<PostLN, float> encoder(
        {.layers = 1, .width = 4, .heads = 2, .feed_forward = 8, .bias = false, .output_projection = false});
    std::vector<std::string> names;
    for_each_parameter([&](const std::string& name, auto&) { names.push_back(name); }, encoder);
    CHECK(names == std::vector<std::string>{"layers.0.attention.query.weight", "layers.0.attention.key.weight",
                                            "layers.0.attention.value.weight", "layers.0.attention.norm.gain",
                                            "layers.0.feed_forward.linear1.weight",
                                            "layers.0.feed_forward.linear2.weight", "layers.0.feed_forward.norm.gain"});
}

TEST_CASE("any number of objects are walked side by side") {
    Encoder<PreLN, float> encoder({.layers = 2, .width = 4, .heads = 2, .feed_forward = 8});
    decltype(encoder)::Gradients gradient, momentum;
    zero_gradients(encoder, gradient);
    zero_gradients(encoder, momentum);
    std::size_t seen = 0;
    for_each_parameter(
        [&](const std::string&, auto& value, auto& g, auto& m) {
            CHECK(detail::shape_of(g) == detail::shape_of(value));
            CHECK(detail::shape_of(m) == detail::shape_of(value));
            for (std::size_t i = 0; i < g.size(); ++i) CHECK((g.data()[i] == 0.0f && m.data()[i] == 0.0f));
            ++seen;
        },
        encoder, gradient, momentum);
    CHECK(seen == 34);
}

TEST_CASE("a constant layer can be read") {
    const Encoder<PreLN, float> encoder({.layers = 1, .width = 4, .heads = 2, .feed_forward = 8});
    std::size_t seen = 0;
    for_each_parameter([&](const std::string&, const auto&) { ++seen; }, encoder);
    CHECK(seen == 18);
}

TEST_CASE("gradients that have no shape yet are refused, not read") {
    Linear<float> linear(3, 2);
    Linear<float>::Gradients gradients;
    CHECK_THROWS_WITH(for_each_parameter([](const std::string&, auto&, auto&) {}, linear, gradients),
                      "parameters: 'weight' has shape (2, 3) in one object and (0, 0) in another; zero_gradients gives "
                      "gradients their shapes");
}

TEST_CASE("gradients of another depth are refused") {
    Encoder<PreLN, float> two({.layers = 2, .width = 4, .heads = 2, .feed_forward = 8});
    Encoder<PreLN, float> three({.layers = 3, .width = 4, .heads = 2, .feed_forward = 8});
    decltype(two)::Gradients gradients;
    zero_gradients(two, gradients);
    CHECK_THROWS_WITH(zero_gradients(three, gradients),
                      "parameters: 'layers' has 3 elements in one object and 2 in another");
}

TEST_CASE("nothing is visited where something does not fit") {
    EncoderLayer<PreLN, float> layer({.layers = 1, .width = 4, .heads = 2, .feed_forward = 8});
    decltype(layer)::Gradients gradients;
    zero_gradients(layer, gradients);
    gradients.feed_forward.sublayer.linear2.bias.resize({5});
    std::size_t seen = 0;
    CHECK_THROWS_WITH(for_each_parameter([&](const std::string&, auto&, auto&) { ++seen; }, layer, gradients),
                      "parameters: 'feed_forward.linear2.bias' has shape (4) in one object and (5) in another; "
                      "zero_gradients gives gradients their shapes");
    CHECK(seen == 0);
}

TEST_CASE("a visitor may walk as well") {
    Encoder<PreLN, float> encoder({.layers = 2, .width = 4, .heads = 2, .feed_forward = 8});
    std::string last;
    for_each_parameter(
        [&](const std::string& name, auto&) {
            const std::string before = name;
            CHECK(parameter_count(encoder) > 0);
            CHECK(name == before);
            last = name;
        },
        encoder);
    CHECK(last == "final_norm.bias");
}

TEST_CASE("a training step's walks allocate nothing once everything has its shape") {
    Encoder<PeriLN, float> encoder({.layers = 3, .width = 4, .heads = 2, .feed_forward = 8});
    decltype(encoder)::Gradients gradients;
    const auto step = [&] {
        zero_gradients(encoder, gradients);
        for_each_parameter(
            [](const std::string&, auto& value, const auto& gradient) {
                for (std::size_t i = 0; i < value.size(); ++i) value.data()[i] -= 0.1f * gradient.data()[i];
            },
            encoder, gradients);
    };
    CHECK(allocations_in(step) > 0);
    CHECK(allocations_in([&] { zero_gradients(encoder, gradients); }) == 0);
    CHECK(allocations_in(step) == 0);
}

TEST_CASE("gradients so large that threads share them are zeroed everywhere") {
    const Linear<float> layer(1000, 999);
    Linear<float>::Gradients gradients;
    zero_gradients(layer, gradients);
    gradients.weight.fill(1.0f);
    zero_gradients(layer, gradients);
    CHECK(std::all_of(gradients.weight.begin(), gradients.weight.end(), [](float g) { return g == 0.0f; }));
}

namespace {
struct Gated {
    using Scalar = double;
    detail::NamedElements<Vector<double>> gates;
    struct Gradients {
        detail::NamedElements<Vector<double>> gates;
        template <class Self>
        static auto members(Self& self) {
            return std::make_tuple(named("", self.gates));
        }
    };
};
}  // namespace

TEST_CASE("elements with names of their own: gradients take them over") {
    detail::NamedElements<Vector<double>> gates;
    gates.add("alpha", Vector<double>::from_shape({2}));
    gates.add("beta", Vector<double>::from_shape({3}));
    Gated block{gates};
    Gated::Gradients gradients;
    zero_gradients(block, gradients);
    CHECK(gradients.gates.names == std::vector<std::string>{"alpha", "beta"});
    CHECK(gradients.gates[1].size() == 3);
    std::vector<std::string> names;
    for_each_parameter([&](const std::string& name, auto&, auto&) { names.push_back(name); }, block, gradients);
    CHECK(names == std::vector<std::string>{"alpha", "beta"});
}
