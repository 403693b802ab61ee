// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <normplace/text/number_names_corpus.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../examples/train/vocabulary.hpp"

using training::Vocabulary;
using Model = training::VocabularyOptions::Model;

namespace {

const std::vector<std::string>& sentences() {
    static const std::vector<std::string> both = [] {
        normplace::NumberNamesOptions options;
        options.training = 1000;
        const normplace::NumberNamesCorpus corpus = normplace::number_names_corpus(options);
        std::vector<std::string> all = corpus.training.source;
        all.insert(all.end(), corpus.training.target.begin(), corpus.training.target.end());
        return all;
    }();
    return both;
}

struct Folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("normplace-vocabulary-" + std::to_string(::getpid()));
    Folder() { std::filesystem::create_directory(path); }
    ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("what was encoded is decoded, and the same sentences give the same vocabulary") {
    for (const Model model : {Model::bpe, Model::unigram}) {
        const Vocabulary vocabulary = Vocabulary::train(sentences(), {.size = 200, .model = model});
        CHECK(vocabulary.size() == 200);
        CHECK(vocabulary.notice() == "");
        CHECK(Vocabulary::train(sentences(), {.size = 200, .model = model}).model() == vocabulary.model());
        for (const std::string& sentence : sentences()) {
            const std::vector<int> ids = vocabulary.encode(sentence);
            for (const int id : ids) REQUIRE(id > Vocabulary::mask);
            REQUIRE(vocabulary.decode(ids) == sentence);
        }
    }
}

TEST_CASE("special ids are where they should be and have no text") {
    const Vocabulary vocabulary = Vocabulary::train(sentences(), {.size = 200});
    CHECK(vocabulary.piece(Vocabulary::padding) == "<pad>");
    CHECK(vocabulary.piece(Vocabulary::unknown) == "<unk>");
    CHECK(vocabulary.piece(Vocabulary::begin) == "<s>");
    CHECK(vocabulary.piece(Vocabulary::end) == "</s>");
    CHECK(vocabulary.piece(Vocabulary::mask) == "<mask>");
    std::vector<int> ids = vocabulary.encode("two");
    ids.insert(ids.begin(), {Vocabulary::begin, Vocabulary::mask});
    ids.insert(ids.end(), {Vocabulary::padding, Vocabulary::end, ids.back()});
    CHECK(vocabulary.decode(ids) == "two");
    CHECK(vocabulary.decode({}) == "");
    CHECK(vocabulary.encode("").empty());
    CHECK(vocabulary.encode("</s>")[0] != Vocabulary::end);
}

TEST_CASE("a corpus too small for the size says so; a size too small for the corpus is refused") {
    const Vocabulary vocabulary = Vocabulary::train({"hello world"}, {.size = 1000});
    CHECK(vocabulary.size() < 100);
    CHECK(vocabulary.notice() ==
          "the corpus gives a vocabulary of " + std::to_string(vocabulary.size()) + " pieces, not of 1000");
    CHECK_THROWS_WITH_AS(
        Vocabulary::train({"hello world"}, {.size = 12}),
        "a vocabulary of 12 pieces is too small: the corpus's characters and the special pieces are 13",
        std::runtime_error);
    CHECK_THROWS_WITH_AS(Vocabulary::train({"hello world"}, {.size = 5}),
                         "a vocabulary of 5 pieces is too small: the corpus's characters and the special pieces are 13",
                         std::runtime_error);
    CHECK_THROWS_WITH_AS(Vocabulary::train({"hello world"}, {.size = 4}),
                         "a vocabulary of 4 pieces has no room for text: five are special", std::runtime_error);
    CHECK_THROWS_WITH_AS(Vocabulary::train({"", " "}),
                         "a vocabulary cannot be trained from 2 sentences, none of which has a character",
                         std::runtime_error);
}

TEST_CASE("a vocabulary travels in a file and in a string") {
    const Folder folder;
    const std::string file = (folder.path / "v.model").string();
    const Vocabulary vocabulary = Vocabulary::train(sentences(), {.size = 150});
    vocabulary.save(file);
    for (const Vocabulary& other : {Vocabulary::load(file), Vocabulary::from_model(vocabulary.model(), "a string")}) {
        CHECK(other.size() == 150);
        CHECK(other.model() == vocabulary.model());
        CHECK(other.encode(sentences()[0]) == vocabulary.encode(sentences()[0]));
    }
    CHECK_THROWS_AS(vocabulary.save((folder.path / "nowhere" / "v.model").string()), std::runtime_error);
}

TEST_CASE("what is no such model is refused with its name") {
    const Folder folder;
    const std::string file = (folder.path / "bad.model").string();
    CHECK_THROWS_WITH_AS(Vocabulary::load(file), (file + " cannot be opened").c_str(), std::runtime_error);
    for (const std::string text : {"", "no model", "\n\x05hello"}) {
        std::ofstream(file, std::ios::binary) << text;
        CHECK_THROWS_WITH_AS(Vocabulary::load(file), (file + " is not a SentencePiece model").c_str(),
                             std::runtime_error);
    }
    CHECK_THROWS_AS(Vocabulary::load(folder.path.string()), std::runtime_error);
    const std::string model = Vocabulary::train(sentences(), {.size = 150}).model();
    for (std::size_t length = 0; length < model.size(); length += 97) try {
            Vocabulary::from_model(model.substr(0, length), "a part").encode("one");
        } catch (const std::runtime_error&) {
        }
}

TEST_CASE("an id that is none is refused") {
    const Vocabulary vocabulary = Vocabulary::train(sentences(), {.size = 150});
    CHECK_THROWS_WITH_AS(vocabulary.decode({150}), "id 150 is not in a vocabulary of 150", std::runtime_error);
    CHECK_THROWS_WITH_AS(vocabulary.piece(-1), "id -1 is not in a vocabulary of 150", std::runtime_error);
}
