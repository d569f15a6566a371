// Names each declaration of the core as users call it. It is compiled and linked, not run.
#include <poplar/ArrayRef.hpp>
#include <poplar/CSRFunctions.hpp>
#include <poplar/CodeletFileType.hpp>
#include <poplar/CycleCount.hpp>
#include <poplar/DataStream.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Device.hpp>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/Executable.hpp>
#include <poplar/Graph.hpp>
#include <poplar/GraphElements.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/IeeeHalf.hpp>
#include <poplar/Interval.hpp>
#include <poplar/MetadataCreation.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/PrintTensorFmt.hpp>
#include <poplar/ProfileValue.hpp>
#include <poplar/Program.hpp>
#include <poplar/Quarter.hpp>
#include <poplar/RandomSeed.hpp>
#include <poplar/RemoteBuffer.hpp>
#include <poplar/ReplicatedStreamMode.hpp>
#include <poplar/StringRef.hpp>
#include <poplar/SyncType.hpp>
#include <poplar/Target.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/TensorCloneMethod.hpp>
#include <poplar/TypeConversion.hpp>
#include <poplar/VariableMappingMethod.hpp>
#include <poplar/VectorLayout.hpp>
#include <poplar/exceptions.hpp>

using namespace poplar;
using namespace poplar::program;

template <typename... T>
void use(const T &...) {}

void utilities() {
  std::vector<int> vector{1, 2};
  std::array<int, 2> array{{1, 2}};
  int plain[2] = {1, 2};
  ArrayRef<int> a, b(vector), c(array), d(plain), e({1, 2}), f(plain, 2), g(f);
  use(a.empty(), b.begin(), b.end(), b.cbegin(), b.cend(), c.data(), d.size(), e.front(), f.back(),
      g[0], a == b, a != b, b.cloneAsVector());
  StringRef s("x"), t(std::string("x")), u("xy", 1);
  std::string text = u;
  std::cout << s << (s == t) << (s < t) << (s + text) << s.cloneAsString();
  Interval i(0, 2), empty;
  std::cout << i.begin() << i.end() << i.size() << (i == empty) << (i < empty) << (i != empty)
            << (i <= empty) << (i > empty) << (i >= empty) << i;
  OptionFlags flags{{"k", "v"}};
  flags.set("a", "b");
  flags.set({{"c", "d"}, {"e", "f"}});
  use(flags.at("a"), flags.find("a")->first, flags.find("a")->second, flags.begin(), flags.end(),
      flags.size());
  readJSON("{}", flags);
  readJSONFromEnv("NAME", flags);
  const ProfileValue value = getAsProfileValue(flags);
  std::cout << flags;
  flags.clear();
  use(value.type(), value.asBool(), value.asInt(), value.asUint(), value.asDouble(),
      value.asString(), value.asMap(), value.asVector(), value.toUintVector(), value.size(),
      value.sumInt(), value.sumUint(), value.sumDouble(), value.sum2DInt(), value.sum2DUint(),
      value["a"], value[0], value.getOrNull("a"));
  std::cout << FLOAT << FLOAT.toString() << FLOAT.hash() << FLOAT.isFloatingPoint()
            << FLOAT.requiresMetadata() << (FLOAT == HALF) << (FLOAT != HALF) << (FLOAT < HALF);
  const TypeTraits traits = TypeTraits::make<float>();
  use(traits.size, traits.align, traits.isSimpleType(), TypeTraits::isSimpleType<float>(),
      TypeTraits::requiresMetadata<float>(), equivalent_device_type<float>().value);
  DebugNameAndId name("n", DebugId(), "p"), from("n"), id(DebugId{});
  DebugContext context("x"), parent(name, "x"), child(context, "x"), braces{name, "x"};
  DebugInfo info(context, "layer");
  DebugNameAndId of(info, "x"), below(name, "x");
  DebugContext inner{info, "x"};
  use(info.getId(), info.getPathName(), info.setValue("k", value), context.getPathName(),
      name.getPathName(), from, id, of, below, parent, child, braces, inner);
  DebugInfo::initializeStreamer("f", DebugSerializationFormat::JSON);
  DebugInfo::closeStreamer();
  const SourceLocation location = SourceLocation::Current();
  use(location.getFunctionName(), location.getFileName(), location.getLineNumber(),
      location.isValid(), versionString(), packageHash(), replication_factor(2));
  use(BOOL, CHAR, SIGNED_CHAR, UNSIGNED_CHAR, SHORT, SIGNED_SHORT, UNSIGNED_SHORT, INT, SIGNED_INT,
      SIGNED, UNSIGNED_INT, UNSIGNED, LONG, UNSIGNED_LONG, LONGLONG, UNSIGNED_LONGLONG, DOUBLE,
      QUARTER, QUARTER_METADATA, SyncType::INTERNAL, SyncType::EXTERNAL, SyncType::GLOBAL);
  use(layout::Vector::Span, layout::VectorList::OnePtr, to_string(layout::Vector::OnePtr));
}

void targets(const Target &target, Device &device) {
  use(target.getTargetType(), target.getTargetArchString(), target.getTargetSystemString(),
      target.getNumIPUs(), target.getTilesPerIPU(), target.getNumTiles(),
      target.getNumWorkerContexts(), target.getBytesPerTile(), target.getMemoryBytes(),
      target.getTypeSize(FLOAT), target.getDataPathWidth(), target.getVectorWidth(FLOAT),
      target.getFloatVectorWidth(), target.getHalfVectorWidth(), target.getQuarterVectorWidth(),
      target.getTileClockFrequency(), target.getExchangeBytesPerCycle(),
      target.getMemcpyBytesPerCycle(), target.getMinIPUSyncDelay(), target.getMaxIPUSyncDelay(),
      target.getGlobalSyncCycles(), target.getAtomicStoreGranularity(), target.getRptCountMax(),
      target.getNumStrideBits(), target.getMemoryElementOffsets(),
      target.getInterleavedMemoryElementIndex(), target == target, target != target, target.hash());
  use(target.getNumConvUnits(HALF, FLOAT), target.getWeightsPerConvUnit(HALF),
      target.getConvUnitInputLoadElemsPerCycle(HALF), target.getConvUnitMaxPipelineDepth(HALF),
      target.getConvUnitCoeffLoadBytesPerCycle(), target.supportsExchangeBusSharing(),
      target.getTilesPerSharedExchangeBus(), target.getNumTilesPerXBContext(),
      target.getNumContextsPerXB(), target.getIpuLinkConfiguration(), target.getIpuLinkTopology(),
      target.getIpuLinkDomainSize(), target.getInstanceSize(), target.getGatewayMode(),
      target.makeFpIctlValue(true, true, true, true, true), target.getFpIctlRegIndex(),
      target.getDbgDataRegIndex(), target.getTypeLimitsMaxAs<float>(HALF),
      target.getTypeLimitsLowestAs<float>(HALF));
  use(target.createVirtualTarget(1, 2), Target::createCPUTarget(), Target::createCPUTarget(true, 2),
      Target::createIPUTarget("ipu2"), Target::createIPUTarget(1, "ipu2"),
      Target::createIPUTarget(1, 4, "ipu2"));
  unsigned major, minor, point;
  device.getDriverVersion(major, minor, point);
  use(device.getId(), device.getTarget(), device.getDriverIDs(), device.attach(),
      device.isAttached(), device.supportsRemoteBuffers(), device.hasGateway(),
      device.getAttributes(), device.getAttribute("a"), device.getNumaTopology(),
      device.getNumaNodesUsedForIPUs());
  device.detach();
  device.reset();
  Device virtualDevice = device.createVirtualDevice(4), cpu = Device::createCPUDevice(),
         simulator = Device::createSimulatorDevice(target);
  DeviceManager manager = DeviceManager::createDeviceManager();
  use(manager.getDevices().size(), manager.getDevices(TargetType::IPU, 1).size(),
      manager.getNumDevices(), manager.getChildDeviceIds(0));
  Device one = manager.getDevice(0), two = manager.getDevice(TargetType::IPU, 0);
  IPUModel model("ipu2");
  model.minIPUSyncDelay = 1;
  model.relativeSyncDelay = IPUModel::RelativeSyncDelayType::NO_DELAY;
  model.globalExchangeConstraints.clear();
  Device three = model.createDevice({}, false, 0);
  float number = 1;
  double large = 1;
  char bytes[8];
  copyFloatToDeviceHalf(target, &number, bytes, 1);
  copyDeviceHalfToFloat(target, bytes, &number, 1);
  copyDoubleToDeviceHalf(target, &large, bytes, 1);
  copyDeviceHalfToDouble(target, bytes, &large, 1);
  convertToDeviceType(HALF, ArrayRef<float>(&number, 1), bytes);
  convertFromDeviceType(HALF, bytes, ArrayRef<float>(&number, 1));
  use(IeeeHalf(1.0f).bits(), IeeeHalf::fromBits(1), static_cast<float>(IeeeHalf(1.0f)));
}

void graphs(Graph &graph, const Target &target, const Device &device, Engine &engine) {
  Graph plain(target), copies(target, replication_factor(2)), of(device),
      more(device, replication_factor(2));
  std::stringstream source;
  graph.addCodelets("f.cpp");
  graph.addCodelets("f.cpp", CodeletFileType::CppSource, "-O2", "cpu");
  graph.addCodelets({"f.cpp", "g.cpp"}, "-O2");
  graph.addCodelets(source, "-O2", CodeletFileType::CppSource);
  Tensor t = graph.addVariable(FLOAT, {2}, "t"),
         l = graph.addVariable(FLOAT, {2}, VariableMappingMethod::LINEAR);
  Tensor q = graph.addVariable(QUARTER, t, {2}),
         r = graph.addVariable(QUARTER, t, {2}, VariableMappingMethod::NONE, "q");
  const std::vector<float> values{1, 2};
  use(graph.addConstant<float>(FLOAT, {2}, {1.0, 2.0}), graph.addConstant(HALF, {}, 2.f),
      graph.addConstant(INT, {1}, 0, {"name"}), graph.addConstant(FLOAT, {2}, values.data()),
      graph.addConstant(FLOAT, {2}, ArrayRef<float>(values)), graph.addConstantHalf(HALF, {1}, 1),
      graph.addConstantHalf(HALF, {1}, static_cast<const std::uint16_t *>(nullptr)));
  use(graph.clone(t), graph.clone(HALF, t, "x", TensorCloneMethod::CREATE_NEW_ORDER),
      graph.cloneN(t, 2),
      graph.cloneN(HALF, t, 2, {}, TensorCloneMethod::PRESERVE_ORDER_AND_ALIASES,
                   TensorCloneDuplicationMethod::DUPLICATE_BY_TILE_CONTIGUOUS_REGION),
      q, r);
  graph.setInitialValue(t, 1.0f);
  graph.setInitialValue(t, ArrayRef<float>(values));
  graph.setInitialValueHalf(t, std::uint16_t(1));
  graph.setInitialValueHalf(t, ArrayRef<std::uint16_t>());
  graph.setTileMapping(t, 0);
  graph.setTileMapping(t, Graph::TileToTensorMapping());
  bool complete;
  use(graph.getTileMapping(t), graph.getTileMapping(t, false, true),
      graph.getTileMapping(t, &complete), graph.getVariableTileMapping(t),
      graph.createVirtualGraph(2), graph.createVirtualGraph(0, 2),
      graph.createVirtualGraph(std::vector<unsigned>{0}), graph.getTopLevelGraph(),
      graph.getReplicationFactor(), graph.getTarget(), graph.convertTileToTopLevelGraphTile(0),
      graph.convertTopLevelGraphTileToTile(0), graph.convertVirtualTileToPhysicalTile(0),
      graph.convertPhysicalTileToVirtualTile(0));
  ComputeSet cs = graph.addComputeSet("cs"), none, numbered(1);
  use(cs.getId(), cs == none, numbered);
  VertexRef v = graph.addVertex(cs, "V"),
            w = graph.addVertex(cs, "V", {{"a", t}, {"b", l}, {"c", 1}});
  FieldRef field = v["a"], indexed = field[1];
  use(v.getId(), w.getId(), indexed.isIndexed(), indexed.getIndex());
  graph.setTileMapping(v, 0);
  graph.connect(field, t);
  graph.connect(field, ArrayRef<Tensor>({t, l}));
  graph.connect(field, 1.0f);
  graph.setInitialValue(field, 1);
  graph.setInitialValue(field, ArrayRef<float>(values));
  graph.setInitialValueHalf(field, std::uint16_t(1));
  graph.setFieldSize(field, 2);
  graph.setPerfEstimate(v, 1, 2);
  graph.setPerfEstimate(v, VertexPerfEstimate(1));
  graph.registerPerfEstimator(
      "V", [](const VertexIntrospector &, const Target &) { return VertexPerfEstimate(1); });
  graph.setCycleEstimate(v, 1);
  graph.registerCycleEstimator(
      "V", [](const VertexIntrospector &, const Target &) { return std::uint64_t(1); });
  use(graph.getFieldSize(field), graph.getMaxFieldDim("V", "a", 0),
      graph.getMaxVertexFieldValue("V", "a"), graph.getMaxVertexFieldValueAs<int>("V", "a"),
      graph.getPerfEstimate(v).flops, graph.getCycleEstimate(v), graph.hasCodelet("V"),
      graph.getNumVertices(), graph.addReplicationIndexConstant());
  graph.createHostWrite("w", t);
  graph.createHostRead("r", t, true);
  DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, 2, ReplicatedStreamMode::BROADCAST, {});
  DataStream out = graph.addDeviceToHostFIFO("out", FLOAT, 2), unset;
  RemoteBuffer buffer = graph.addRemoteBuffer("b", FLOAT, 2, 1, false, false), unset2;
  use(in.handle(), in.numElements(), in.elementType(), in.replicationFactor(), in.replicatedMode(),
      out.type(), buffer.handle(), buffer.numElements(), buffer.getRepeats(), buffer.elementType(),
      buffer.isRearrangeOnHost(), buffer.isOptimisedForMemory());
  HostFunction host = graph.addHostFunction("h", {HostFunctionArgument{FLOAT, 2}}, {});
  Function function = graph.addFunction(Sequence());
  FunctionBuffer functions = graph.addFunctionBuffer(function, FunctionBufferMappingType::REMOTE);
  graph.outputVertexGraph(std::cout);
  graph.outputComputeGraph(std::cout, {Sequence()});
  graph.serialize(std::cout, SerializationFormat::JSON);
  graph.serialize(std::cout, {Sequence()}, SerializationFormat::Binary);
  graph.serializeTensors(std::cout, {t}, SerializationFormat::Binary);
  use(graph.deserializeTensors(std::cin, SerializationFormat::Binary));
  std::vector<std::size_t> aliases;
  use(graph.getSortedContiguousRegions(t, {Interval(0, 2)}, true, &aliases),
      graph.findUnbroadcastTensor(t));
  graph.reorderToSimplify(&t, {&l});
  TensorRearranger rearranger = graph.getSimplifyingRearranger(t);
  use(rearranger.rearrange(t), rearranger.undoRearrangement(t), rearranger.valid());
  use(graph.isConstant(t.getVarRegions()[0].var), graph.getVariable(t.getVarRegions()[0].var));
  program::Sequence prog{Execute(cs), Execute(cs, t)};
  Sequence empty({}, {"name"}), two(prog, prog), named(DebugContext("x"));
  prog.add(Copy(t, l));
  prog.add(Copy(t, l, false, "x"));
  prog.add(Copy(in, t));
  prog.add(Copy(t, out, true, "x"));
  prog.add(Copy(buffer, t));
  prog.add(Copy(buffer, t, t));
  prog.add(Copy(t, buffer));
  prog.add(Copy(t, buffer, t, "x"));
  prog.add(Copy(functions, function));
  prog.add(Repeat(2, prog));
  prog.add(RepeatWhileTrue(prog, t, prog));
  prog.add(RepeatWhileFalse(prog, t, prog));
  prog.add(Loop(prog));
  prog.add(If(t, prog, prog));
  Switch choice(t), other(t, prog), cases(t, {{1, prog}}), all(t, {{1, prog}}, prog);
  choice.add(1, prog);
  prog.add(Switch::switchWithBoundsChecking(t, {{1, prog}}));
  prog.add(Switch::switchWithUnreachableDefault(t));
  prog.add(Call(function));
  prog.add(Call(host, {t}, {}));
  prog.add(PrintTensor(t));
  prog.add(PrintTensor(t, PrintTensorFmt(1, 2, 3)));
  prog.add(PrintTensor("x", t, PrintTensorFmt::disableFormatting()));
  prog.add(Sync(SyncType::EXTERNAL));
  prog.add(WriteUndef(t));
  prog.add(Block(prog, "x"));
  prog.add(AssumeEqualAcrossReplicas(t));
  prog.add(CrossReplicaCopy(t, l, {{0, 1}}));
  prog.add(Abort());
  prog.add(Abort(std::string("x")));
  prog.add(AbortOnCondition(t));
  prog.add(AbortOnCondition(t, std::string("x")));
  prog.add(ErrorProgram("x", t));
  use(prog.isEmpty(), Program());
  const auto progress = [](int, int) {};
  Executable executable = compileGraph(graph, {prog}, {}, progress, "x"),
             other2 = compileGraph(graph, {prog}, true);
  Engine made(graph, {prog, prog}), single(graph, prog), options(graph, {prog}, {}, progress),
      loaded(std::move(executable));
  const RuntimeOptions runtime{OptionFlags()};
  engine.load(device);
  engine.prepare(device);
  engine.prepare(device, runtime);
  engine.deploy();
  engine.run();
  engine.run(0, "x");
  engine.run(0, "x", runtime);
  engine.stop();
  engine.loadAndRun(device);
  std::vector<float> data(2);
  engine.writeTensor("w", data.data(), data.data() + 2);
  engine.writeTensor("w", ArrayRef<float>(data));
  engine.writeTensor("w", data.data());
  engine.readTensor("r", &data[0], &data[2]);
  engine.readTensor("r", gccs::ArrayRef<float>(data));
  engine.connectStream("in", &data[0], &data[2]);
  engine.connectStream("in", &data[0]);
  engine.connectStream("in", gccs::ArrayRef<float>(data));
  engine.connectStreamToCallback("in", [](void *) {});
  engine.connectStreamToCallback("in", 0, [](void *) {});
  engine.connectHostFunction("h", 0, [](ArrayRef<const void *>, ArrayRef<void *>) {});
  engine.copyToRemoteBuffer(data.data(), "b", 0);
  engine.copyToRemoteBuffer(ArrayRef<float>(data), "b", 0, 0);
  engine.copyFromRemoteBuffer("b", data.data(), 0);
  engine.copyFromRemoteBuffer("b", gccs::ArrayRef<float>(data), 0, 0);
  engine.setPrintStream(std::cout);
  engine.setPrintTensorStream(std::cout);
  engine.printProfileSummary(std::cout, {});
  engine.resetExecutionProfile();
  engine.disableExecutionProfiling();
  engine.enableExecutionProfiling();
  engine.reportIntervals(std::cout);
  engine.insertSimulatedError("x", "y");
  engine.eraseSimulatedError("x");
  engine.clearSimulatedErrors();
  use(engine.listStreams(), engine.getEngineOptions(), engine.getGraphProfile(),
      engine.getExecutionProfile(), engine.getProfile(), engine.getTimeStamp(),
      engine.getSimulatedErrorLocations(),
      engine.reportTiming(engine.getTimeStamp(), engine.getTimeStamp()));
  printGraphSummary(std::cout, {}, {});
  printExecutionSummary(std::cout, {}, {}, {});
  printProfileSummary(std::cout, {}, {}, {});
  QuarterMetadata metadata(QuarterMetadata::Format::F143, 1);
  use(createVariableMetadataTensor(graph, QuarterMetadata::Format::F152, 1), metadata);
}

void tensors(Tensor &t) {
  use(t.valid(), t.elementType(), t.shape(), t.rank(), t.numElements(), t.dim(0), t[0], t[0][0],
      t.index({0}), t.slice(0, 1, 0), t.slice(0, 1), t.slice(Interval(0, 1), 0), t.slice({0}, {1}),
      t.slices({Interval(0, 1)}), t.slices(std::vector<std::vector<Interval>>()),
      t.slices(std::vector<unsigned>{0}), t.flatten(), t.flatten(0, 1), t.reshape({1}),
      t.reshapePartial(0, 1, {1}), t.dimShuffle({0}), t.dimShufflePartial({0}, {0}), t.dimRoll(0),
      t.transpose(), t.expand({0}), t.squeeze({0}), t.broadcast(2, 0),
      t.upsample(2, 0, UpsampleMethod::REPEAT), t.subSample(2, 0), t.reverse(0), t.reinterpret(INT),
      concat({t, t}), concat(t, t), concat(t, t, {1}), append(t, t, 0), append(t, t));
  use(t.isContiguous(), t.containsAliases(), t.containsConstant(), t.isParallelWriteable(),
      t.intersectsWith(t), t.getContiguousRegions(), t.getVarRegions()[0].interval,
      t.getVarRegions()[0].var.id, t.getDebugStr(), t.getVarStr(), t.shapeToString(),
      t.getMetadata(), t.hasMetadata(), t == t, t != t);
  t.dump();
  t.dumpRegions();
  std::cout << t;
}
